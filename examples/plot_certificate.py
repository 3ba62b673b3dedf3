"""
The certificate falls
=====================

How good is a solution when the solver stops? ``TATML`` solves a convex problem, and computes a
lower bound along with the objective. The difference, the duality gap, is a certificate: no metric
can have an objective that is lower by more than the gap. The solver stops on the gap, and on
nothing else.
"""

# %%
# Each fitted estimator has ``result_`` with the whole history. The solution is within the
# tolerance, here a millionth of the objective, of the best there is.

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

from tatml import TATML, Dykstra
from tatml.plotting import ConvergenceDisplay

X, y = load_breast_cancer(return_X_y=True)
metric = TATML(random_state=0).fit(X, y)
print(metric.result_)
ConvergenceDisplay.from_estimator(metric)

# %%
# Two solvers that have nothing in common but the problem must agree as far as their gaps say.
# Newton's method takes few steps, and the gap falls faster and faster. Dykstra's projections, the
# method of the paper, process one pair at a time; an iteration is a pass over all pairs, and the
# gap falls at a steady pace.

few = {"n_pairs_per_class": 200, "random_state": 0}
newton = TATML(tol=1e-8, **few).fit(X, y)
dykstra = TATML(tol=1e-7, solver=Dykstra(max_iter=2000), **few).fit(X, y)
figure, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for model, name, colour in ((newton, "Newton", "#0072b2"), (dykstra, "Dykstra", "#d55e00")):
    history = model.result_.history
    ax.semilogy(history["iteration"], history["gap"], "o-", color=colour, markersize=3, label=name)
ax.set(xlabel="iteration", ylabel="duality gap", title="Two solvers, one certificate")
ax.grid(alpha=0.3)
ax.legend()
bound = dykstra.result_.gap
print(f"objectives: Newton {newton.result_.primal:.8f}, Dykstra {dykstra.result_.primal:.8f}")
difference = dykstra.result_.primal - newton.result_.primal
print(f"they differ by {difference:.1e}; the gap allows {bound:.1e}")
