"""Pairs with their sums beside their differences: docs/theory.md, (Mid)."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm, sqrtm
from scipy.optimize import minimize

from tatml import AllPairs, Blocks, Comparisons, Compute, Newton, PairChunks, learn_metric
from tatml._data.pairs import Pairs
from tatml._optim.certificate import full_certificate
from tatml._optim.hessian import SvecRows
from tatml._optim.layout import Limits
from tatml._optim.problem import LogDetProblem, additive_hinge, logistic
from tatml._optim.sums import PairSums
from tatml._sharding.all_pairs import tile_sums
from tatml._sharding.base import LossSetting
from tatml._sharding.chunks import sharded_term
from tatml._svec import svec

LOSSES = {"squared_hinge": additive_hinge, "logistic": logistic}
SHAPES = {"vectors": [(4, 1)], "matrices": [(3, 2)], "two blocks": [(3, 1), (2, 2)]}


@dataclass
class Case:
    """Samples, pairs of them, and the matrices of the definition."""

    arrays: list
    pairs: Pairs
    center: list

    @property
    def blocks(self):
        return Blocks(*self.arrays)

    @property
    def signs(self):
        return [1] * len(self.arrays) + [-1] * len(self.arrays)

    @property
    def features(self):
        """The transposed samples, and those minus the centre."""
        shifted = [array - mean for array, mean in zip(self.arrays, self.center, strict=True)]
        return [np.ascontiguousarray(np.swapaxes(a, 1, 2)) for a in [*self.arrays, *shifted]]

    def matrices(self):
        """A_k of each block as the definition has it: ΔΔᵀ, then −ΣΣᵀ."""
        i, j = self.pairs.first, self.pairs.second
        differences = [array[i] - array[j] for array in self.arrays]
        sums = [
            array[i] + array[j] - 2 * mean
            for array, mean in zip(self.arrays, self.center, strict=True)
        ]
        squares = [rows @ np.swapaxes(rows, 1, 2) for rows in differences]
        return squares + [-rows @ np.swapaxes(rows, 1, 2) for rows in sums]

    def scores(self, W):
        """q_k, with W and then V."""
        products = zip(self.matrices(), W, strict=True)
        return sum(np.einsum("kij,ij->k", A, V) for A, V in products) / len(self.arrays)

    def problem(self, loss="logistic", C=2.0, c0=1.5, mu0=0.3, prior=None):
        losses = LOSSES[loss](self.pairs, C)
        return LogDetProblem.build(
            self.blocks, self.pairs, losses, c0=c0, mu0=mu0, prior=prior, center=self.center
        )


def random_case(shapes, seed=0, n_pairs=25, n_samples=9, weights=False):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=(n_samples, *shape)) + 1.0 for shape in shapes]
    first = rng.integers(n_samples, size=n_pairs)
    second = (first + rng.integers(1, n_samples, size=n_pairs)) % n_samples
    index = np.stack([first, second], axis=1)
    similar = rng.random(n_pairs) < 0.5
    pairs = Pairs(index, similar, rng.uniform(0.2, 3, size=n_pairs) if weights else None)
    return Case(arrays, pairs, [array.mean(axis=0) + 0.1 for array in arrays])


def random_spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + 0.1 * np.eye(n)


def random_metrics(case, seed=1):
    rng = np.random.default_rng(seed)
    return [random_spd(rng, block.shape[2]) for block in case.features]


@pytest.fixture(params=SHAPES)
def case(request):
    return random_case(SHAPES[request.param], weights=True)


# The sums


def as_samples(case, limits):
    index = case.pairs.first, case.pairs.second
    return PairSums.of(case.features, *index, limits=limits, signs=case.signs)


WAYS = {
    "samples": Limits(by_samples=False),
    "small chunks": Limits(by_samples=False, chunk_bytes=1),
    "late factors": Limits(chunk_bytes=1, eager_bytes=0),
    "over samples": Limits(by_samples=True),
    "formed": None,
}


def sums_of(case, way):
    if way == "formed":
        return as_samples(case, Limits()).formed()
    return as_samples(case, WAYS[way])


@pytest.mark.parametrize("way", WAYS)
def test_sums_are_those_of_the_definition(case, way):
    sums, matrices, M = sums_of(case, way), case.matrices(), len(case.arrays)
    rng = np.random.default_rng(3)
    s, V = rng.normal(size=len(case.pairs)), random_metrics(case)
    scatter = [np.einsum("k,kij->ij", s, A) / M for A in matrices]
    eyes = [np.eye(len(v)) for v in V]
    assert sums.features.n_blocks == M
    assert_allclose(sums.distances(), case.scores(eyes), rtol=1e-11, atol=1e-12)
    assert_allclose(sums.quadratic(V), case.scores(V), rtol=1e-11, atol=1e-12)
    unsigned = sum(
        np.einsum("kii->k", sign * A) for A, sign in zip(matrices, case.signs, strict=True)
    )
    assert_allclose(sums.unsigned(), unsigned / M, rtol=1e-11)
    for got, expected in zip(sums.scatter(s), scatter, strict=True):
        assert_allclose(got, expected, rtol=1e-10, atol=1e-11)
    q, lifted = sums.product(V, s, 0.5 * s)
    assert_allclose(q, s * (case.scores(V) + 0.5 * s), rtol=1e-10, atol=1e-11)
    for got, A in zip(lifted, matrices, strict=True):
        assert_allclose(got, np.einsum("k,kij->ij", q, A) / M, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("way", WAYS)
def test_a_pass_finds_scores_scatter_and_the_size_of_their_numbers(case, way):
    rng, matrices, M = np.random.default_rng(4), case.matrices(), len(case.arrays)
    G, s = [np.linalg.cholesky(W) for W in random_metrics(case)], rng.normal(size=len(case.pairs))
    found = sums_of(case, way).transformed(G).evaluate(lambda part, _: s[part])
    assert_allclose(found.distances, case.scores([L @ L.T for L in G]), rtol=1e-10, atol=1e-11)
    for got, A, L in zip(found.scatter, matrices, G, strict=True):
        expected = L.T @ np.einsum("k,kij->ij", s, A) @ L / M
        assert_allclose(got, expected, rtol=1e-10, atol=1e-10)
    unsigned = sum(
        sign * np.einsum("kij,ij->k", A, L @ L.T)
        for A, L, sign in zip(matrices, G, case.signs, strict=True)
    )
    assert np.all(found.reach() >= np.sqrt(unsigned / M) * (1 - 1e-12))


def test_rows_of_svec_are_those_of_the_definition(case):
    sums, M = sums_of(case, "samples"), len(case.arrays)
    rows = sums.svec_rows(slice(0, len(case.pairs)))
    expected = [[svec(A) / M for A in per_pair] for per_pair in zip(*case.matrices(), strict=True)]
    assert_allclose(rows, [np.concatenate(parts) for parts in expected], rtol=1e-12, atol=1e-13)
    G = [np.linalg.cholesky(W) for W in random_metrics(case)]
    found = SvecRows(sums).evaluate(G, lambda part, _: np.ones(len(case.pairs))[part])
    assert_allclose(found.distances, case.scores([L @ L.T for L in G]), rtol=1e-11)
    assert np.all(found.reach() ** 2 >= abs(found.distances))


@pytest.mark.parametrize("n_first", [9, 4])
def test_the_sums_of_a_tile_are_those_of_its_pairs(n_first):
    case = random_case(SHAPES["two blocks"])
    case.arrays = [np.concatenate([a[:8], a[:1] + 1e-9]) for a in case.arrays]  # a near pair
    sums = tile_sums(case.features, n_first, case.signs)
    graph = sums.graph
    similar = np.zeros(len(graph.first), dtype=bool)
    case.pairs = Pairs(np.stack([graph.first, graph.second], axis=1), similar, None)
    G = [np.linalg.cholesky(W) for W in random_metrics(case)]
    s = np.random.default_rng(0).normal(size=len(case.pairs))
    found = sums.transformed(G).evaluate(lambda part, _: s[part])
    expected = sums_of(case, "samples").transformed(G).evaluate(lambda part, _: s[part])
    assert_allclose(found.distances, expected.distances, rtol=1e-9, atol=1e-10)
    for got, other in zip(found.scatter, expected.scatter, strict=True):
        assert_allclose(got, other, rtol=1e-9, atol=1e-10)
    V = random_metrics(case, 8)
    assert_allclose(sums.quadratic(V), case.scores(V), rtol=1e-9, atol=1e-10)


# The problem


def objective(case, problem, W, b0):
    """F as the definition has it."""
    loss, W0 = problem.pairs.loss, problem.prior or [np.eye(len(w)) for w in W]
    zeta, y, w = case.scores(W) - b0, loss.sign, loss.weight
    if problem.pairs.loss.quadratic:
        losses = w / 2 * np.maximum(1 + y * zeta, 0) ** 2
    else:
        losses = w * np.logaddexp(0, y * zeta)
    value = losses.sum() + problem.c0 / 2 * (b0 - problem.mu0) ** 2
    for one, prior in zip(W, W0, strict=True):
        ratio = one @ np.linalg.inv(prior)
        value += np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(one)
    return value


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("prior", [False, True])
def test_newton_finds_and_certifies_the_least_value(case, loss, prior):
    """The least value is that of BFGS over the matrix logarithms of W and V, and b0."""
    W0 = random_metrics(case, 7) if prior else None
    problem = case.problem(loss, prior=W0)
    found = Newton().solve(problem, tol=1e-12)
    assert found.converged
    sizes = [len(L) for L in found.L]
    triangles = [np.triu_indices(n) for n in sizes]
    roots = [np.real(sqrtm(one)) for one in W0] if prior else [np.eye(n) for n in sizes]

    def metrics(free):
        W, start = [], 0
        for n, upper, root in zip(sizes, triangles, roots, strict=True):
            A = np.zeros((n, n))
            A[upper] = free[start : start + len(upper[0])]
            start += len(upper[0])
            W.append(root @ expm(A + A.T) @ root)
        return W

    def value(free):
        if abs(free).max() > 10:  # the line search tried a wild step
            return 1e9
        return objective(case, problem, metrics(free), free[-1])

    start = np.append(np.zeros(sum(len(upper[0]) for upper in triangles)), problem.mu0)
    least = minimize(value, start, method="BFGS", options={"gtol": 1e-6}).fun
    assert_allclose(found.primal, objective(case, problem, found.W, found.b0), rtol=1e-10)
    assert found.dual <= least * (1 + 1e-12)
    assert_allclose(found.primal, least, rtol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_solution_is_the_map_of_its_multipliers(case, loss):
    """W = (W0⁻¹ + S⁻)⁻¹ and V = (V0⁻¹ − S⁺)⁻¹, b = μ0 + Σs/c0."""
    W0 = random_metrics(case, 7)
    problem = case.problem(loss, prior=W0)
    found = Newton().solve(problem, tol=1e-13)
    zeta = case.scores(found.W) - found.b0
    s = problem.pairs.loss.slope(
        zeta + (0 if loss == "logistic" else np.where(case.pairs.similar, 1, -1))
    )
    M = len(case.arrays)
    for W, prior, A in zip(found.W, W0, case.matrices(), strict=True):
        S = np.einsum("k,kij->ij", s, A) / M
        assert_allclose(W, np.linalg.inv(np.linalg.inv(prior) + S), rtol=1e-5, atol=1e-6)
    assert_allclose(found.b0, problem.mu0 + s.sum() / problem.c0, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_any_point_is_certified(case, loss):
    rng, problem = np.random.default_rng(5), case.problem(loss)
    least = Newton().solve(problem, tol=1e-12)
    for seed in range(5):
        L = [np.linalg.cholesky(W) for W in random_metrics(case, 20 + seed)]
        b0 = float(rng.normal())
        proof = full_certificate(problem, L, L, b0)
        value = objective(case, problem, [one @ one.T for one in L], b0)
        assert_allclose(proof.primal, value, rtol=1e-11)
        assert proof.gap >= value - least.primal
        assert proof.dual <= least.primal
        if proof.gap < 1e3:
            assert problem.at(L, b0).gap >= (value - least.primal) * (1 - 1e-9)


# learn_metric, wherever the pairs are


def arguments(case, **options):
    settings = {"C": 2.0, "c0": 1.5, "mu0": 0.3, "tol": 1e-10, "midpoint": case.center}
    return (case.blocks, case.pairs.index, case.pairs.similar), settings | options


def learn_in_memory(data, settings):
    return learn_metric(*data, **settings)


def learn_from_stored(data, settings):
    zarr = pytest.importorskip("zarr")
    blocks = Blocks(*(zarr.array(array, chunks=(3, *array.shape[1:])) for array in data[0].arrays))
    return learn_metric(blocks, *data[1:], **settings)


def learn_in_chunks(data, settings):
    X, pairs, similar = data
    parts = [slice(0, 10), slice(10, 25)]
    return learn_metric(PairChunks((X, pairs[p], similar[p]) for p in parts), **settings)


def learn_with_little_memory(data, settings):
    return learn_metric(*data, **settings, compute=Compute(max_memory="20 MB"))


PLACES = [learn_from_stored, learn_in_chunks, learn_with_little_memory]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("learn", PLACES)
def test_pairs_in_parts_give_the_same_solution(learn, loss):
    case = random_case(SHAPES["two blocks"])
    data, settings = arguments(case, loss=loss)
    expected, found = learn_in_memory(data, settings), learn(data, settings)
    assert found.converged
    assert abs(found.primal - expected.primal) <= found.gap + expected.gap + 1e-11
    assert_allclose(found.b0, expected.b0, rtol=1e-4)
    for got, other in zip([*found.W, *found.V], [*expected.W, *expected.V], strict=True):
        assert_allclose(got, other, rtol=1e-3, atol=1e-4)
    for got, other in zip(found.center, case.center, strict=True):
        assert_allclose(got, other)


@pytest.mark.parametrize("loss", LOSSES)
def test_all_pairs_give_the_solution_of_their_list(loss):
    case, labels = random_case(SHAPES["two blocks"]), np.arange(9) % 3
    index = np.stack(np.triu_indices(9, 1), axis=1)
    case.pairs = Pairs(index, labels[index[:, 0]] == labels[index[:, 1]], None)
    data, settings = arguments(case, loss=loss)
    expected = learn_in_memory(data, settings)
    found = learn_metric(data[0], AllPairs(labels), **settings)
    assert found.converged
    assert abs(found.primal - expected.primal) <= found.gap + expected.gap + 1e-11
    assert_allclose(found.V[0], expected.V[0], rtol=1e-3, atol=1e-4)


def test_conjugates_between_the_multiples_of_shards_are_bounded_from_above():
    case = random_case(SHAPES["vectors"])
    data, _ = arguments(case, loss="logistic")
    setting = LossSetting(2.0, (0.5, 2.0), loss="logistic")
    where = Compute(max_memory="20 MB")
    term = sharded_term(*data, None, setting, where=where, midpoint=case.center)
    L = [np.linalg.cholesky(W) for W in random_metrics(case)]
    shards, listed = term.at(L, 0.4), case.problem("logistic").term.at(L, 0.4)
    assert not term.quadratic
    for theta in (0.0, 1e-4, 0.003, 0.2, 0.77, 1.0):
        exact = listed.conjugate(theta)
        assert shards.conjugate(theta) >= exact - 1e-12
        assert_allclose(shards.conjugate(theta), exact, rtol=0.2, atol=0.02)
    assert_allclose(shards.conjugate(1.0), listed.conjugate(1.0), rtol=1e-12)


def test_the_mean_of_the_samples_is_the_centre():
    case = random_case(SHAPES["vectors"])
    data, settings = arguments(case, midpoint=True)
    mean = case.arrays[0].mean(axis=0)
    for found in (learn_in_memory(data, settings), learn_with_little_memory(data, settings)):
        assert_allclose(found.center[0], mean, rtol=1e-14)
    given = learn_metric(*data, **settings | {"midpoint": mean[:, 0]})
    assert_allclose(given.V[0], found.V[0], rtol=1e-4)


def test_a_solution_is_the_start_of_the_next_one():
    data, settings = arguments(random_case(SHAPES["two blocks"]))
    first = learn_in_memory(data, settings)
    again = learn_metric(*data, **settings, init=first)
    assert again.n_iter < first.n_iter
    assert again.converged


def test_the_order_of_pairs_and_of_their_members_does_not_matter(case):
    (X, pairs, similar), settings = arguments(case)
    order = np.random.default_rng(0).permutation(len(pairs))
    one = learn_metric(X, pairs, similar, **settings)
    other = learn_metric(X, pairs[order][:, ::-1], similar[order], **settings)
    assert_allclose(one.primal, other.primal, rtol=1e-9)
    for got, expected in zip([*one.W, *one.V], [*other.W, *other.V], strict=True):
        assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


def test_a_shift_of_samples_and_centre_changes_nothing(case):
    data, settings = arguments(case)
    shifted = Blocks(*(array + 3.0 for array in case.arrays))
    moved = settings | {"midpoint": [mean + 3.0 for mean in case.center]}
    one = learn_metric(*data, **settings)
    other = learn_metric(shifted, *data[1:], **moved)
    assert_allclose(one.primal, other.primal, rtol=1e-9)
    assert_allclose(one.V[0], other.V[0], rtol=1e-3, atol=1e-4)


def test_units_do_not_matter_if_the_prior_follows(case):
    data, settings = arguments(case, prior=random_metrics(case, 7))
    one = learn_metric(*data, **settings)
    scaled = Blocks(*(10 * array for array in case.arrays))
    prior = [W0 / 100 for W0 in settings["prior"]]
    center = [10 * mean for mean in case.center]
    other = learn_metric(scaled, *data[1:], **settings | {"prior": prior, "midpoint": center})
    assert_allclose(one.primal, other.primal, rtol=1e-9)
    assert_allclose(one.b0, other.b0, rtol=1e-4)
    assert_allclose(one.V[0], 100 * other.V[0], rtol=1e-3, atol=1e-3)


def test_minus_the_score_is_an_inner_product():
    """docs/theory.md, (Mid): the form that a search by inner products needs."""
    case = random_case(SHAPES["vectors"])
    data, settings = arguments(case)
    found = learn_metric(*data, **settings)
    W, V = found.W[0], found.V[0]
    z, R = case.arrays[0][:, :, 0] - found.center[0][:, 0], np.linalg.cholesky(W + V)
    a, one = np.einsum("ki,ij,kj->k", z, W - V, z)[:, None], np.ones((len(z), 1))
    u = np.hstack([np.sqrt(2) * z @ R, -a, one])
    v = np.hstack([np.sqrt(2) * z @ R, one, -a])
    i, j = data[1].T
    q = case.scores([W, V])
    assert_allclose(np.einsum("ki,ki->k", u[i], v[j]), -q, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_threshold_may_have_any_sign(loss):
    data, settings = arguments(random_case(SHAPES["vectors"]), mu0=-2.0, c0=1e6, loss=loss)
    assert learn_metric(*data, **settings).b0 == pytest.approx(-2.0, abs=1e-3)


def test_the_logistic_loss_needs_no_midpoint():
    case = random_case(SHAPES["vectors"])
    data, settings = arguments(case, midpoint=False, loss="logistic", mu0=1.0)
    found = learn_metric(*data, **settings)
    assert found.converged
    assert found.V is None
    i, j = data[1].T
    x = case.arrays[0][:, :, 0]
    D = np.einsum("ki,ij,kj->k", x[i] - x[j], found.W[0], x[i] - x[j])
    y = np.where(data[2], 1, -1)
    value = 2.0 * np.logaddexp(0, y * (D - found.b0)).sum() + 1.5 / 2 * (found.b0 - 1.0) ** 2
    W = found.W[0]
    value += np.trace(W) - np.linalg.slogdet(W)[1] - len(W)
    assert_allclose(found.primal, value, rtol=1e-10)


REFUSED = {
    "margin": ({"margin": (0.4, 2.0)}, ValueError, "margin: expected"),
    "dykstra": ({"solver": "dykstra"}, ValueError, "solver: expected 'newton'"),
    "comparisons": ({"comparisons": Comparisons([[0, 1, 2]])}, ValueError, "comparisons: expected"),
    "a word": ({"midpoint": "mean"}, TypeError, "midpoint: "),
    "two centres": (
        {"midpoint": [np.zeros(4), np.zeros(4)]},
        ValueError,
        "midpoint: expected True",
    ),
    "another shape": ({"midpoint": np.zeros(3)}, ValueError, "midpoint: block 0: expected shape"),
    "NaN": ({"midpoint": np.full(4, np.nan)}, ValueError, "midpoint: block 0: "),
    "one prior": ({"prior": np.eye(4)}, ValueError, "prior: expected"),
    "an unknown loss": ({"loss": "hinge"}, ValueError, "loss: expected"),
    "a number": (
        {"midpoint": 1},
        ValueError,
        "midpoint: block 0: expected True, False or an array",
    ),
    "no number": ({"mu0": np.nan}, ValueError, "mu0: expected"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_with_a_midpoint_is_refused_by_name(name):
    options, kind, message = REFUSED[name]
    data, settings = arguments(random_case(SHAPES["vectors"]), **options)
    with pytest.raises(kind, match=message):
        learn_metric(*data, **settings)


@pytest.mark.parametrize("center", [np.zeros(4), (np.zeros(4),), [np.zeros((4, 1))]])
def test_the_centre_may_have_any_form_in_chunks_and_in_memory(center):
    data, settings = arguments(random_case(SHAPES["vectors"]), midpoint=center)
    for place in (data, (PairChunks([data]),)):
        found = learn_metric(*place, **settings)
        assert [mean.shape for mean in found.center] == [(4, 1)]


@pytest.mark.parametrize("center", ["mean", 1j * np.ones(4), [], np.nan])
def test_a_wrong_centre_of_chunks_is_refused_by_name(center):
    data, settings = arguments(random_case(SHAPES["vectors"]), midpoint=center)
    with pytest.raises((TypeError, ValueError), match="midpoint: "):
        learn_metric(PairChunks([data]), **settings)


def test_flags_of_numpy_are_flags():
    data, settings = arguments(random_case([(1, 1)]), midpoint=np.True_)
    assert learn_metric(*data, **settings).V is not None
    assert learn_metric(*data, **settings | {"midpoint": np.False_, "mu0": 1.0}).V is None


def test_the_threshold_of_the_logistic_loss_may_be_negative():
    data, settings = arguments(
        random_case(SHAPES["vectors"]), midpoint=False, loss="logistic", mu0=-3.0, c0=1e6
    )
    assert learn_metric(*data, **settings).b0 == pytest.approx(-3.0, abs=1e-3)


def test_chunks_have_to_name_their_centre_and_samples():
    case = random_case(SHAPES["vectors"])
    data, settings = arguments(case, midpoint=True)
    with pytest.raises(ValueError, match="midpoint: expected the centre"):
        learn_metric(PairChunks([data]), **settings)
    differences = (case.arrays[0][:2], None, [True, False])
    with pytest.raises(ValueError, match="midpoint: expected chunks"):
        learn_metric(PairChunks([differences]), **settings | {"midpoint": case.center})
