"""Datasets in a folder: both forms, the search order, and the result."""

import sys
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from datasets_helpers import ADVICE, MINIS, each_dataset, read, write_image
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from tatml.datasets import _loaders
from tatml.datasets._loaders import BRODATZ, ETH80, VIRUS, crop, find_crop

pytest.importorskip("PIL")
ARRAYS = {
    "virus": {"numbers", "duplicates"},
    "brodatz": {"positions"},
    "eth80": {"object_numbers", "angles", "crop_box", "masks"},
}


@pytest.fixture(autouse=True)
def no_folder_in_the_environment(monkeypatch):
    monkeypatch.delenv("TATML_DATA", raising=False)


# Two forms, the same data


@each_dataset
def test_both_forms_give_the_same(mini, tmp_path):
    mini.write_archive(tmp_path / "a")
    mini.write_tree(tmp_path / "b" / mini.layout.name)
    compact, distributed = read(mini, tmp_path / "a"), read(mini, tmp_path / "b")
    assert (compact.form, distributed.form) == ("compact", "as distributed")
    assert compact.keys() == distributed.keys()
    names = {"images", "target", "groups", "target_names"} | ARRAYS[mini.layout.name]
    assert names | {"DESCR", "form", "source"} == compact.keys()
    for name in names:
        assert_array_equal(compact[name], distributed[name], strict=True)
    assert compact.images.dtype == np.uint8
    assert len(compact.images) == len(compact.target) == len(compact.groups)
    assert_array_equal(np.unique(compact.target), np.arange(len(compact.target_names)))


@each_dataset
def test_x_and_y_alone(mini, tmp_path):
    mini.write_archive(tmp_path)
    images, target = read(mini, tmp_path, return_X_y=True)
    both = read(mini, tmp_path)
    assert_array_equal(images, both.images)
    assert_array_equal(target, both.target)


@each_dataset
def test_compact_files_do_not_need_pillow(mini, tmp_path, monkeypatch):
    mini.write_archive(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert len(read(mini, tmp_path).images)


@each_dataset
def test_images_need_pillow_and_the_error_names_the_extra(mini, tmp_path, monkeypatch):
    mini.write_tree(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r'need Pillow .*: pip install "\.\[images\]"'):
        read(mini, tmp_path)


# Where it is looked for


@each_dataset
def test_the_search_order(mini, tmp_path):
    """Each place has other pixels; the first remaining place is read."""
    subfolder = tmp_path / mini.layout.name
    archives = [mini.write_archive(tmp_path, 1), mini.write_archive(subfolder, 2)]
    trees = [mini.write_tree(subfolder, 3), mini.write_tree(tmp_path, 4)]
    removals = [archives[:1], archives[1:], trees[0], trees[1]]
    sources = [*archives, subfolder, tmp_path]
    for seed, (source, files) in enumerate(zip(sources, removals, strict=True), start=1):
        found = read(mini, tmp_path)
        mini.write_archive(tmp_path / "reference", seed)
        assert found.source == str(source)
        assert_array_equal(found.images, read(mini, tmp_path / "reference").images)
        for file in files:
            file.unlink()
    with pytest.raises(FileNotFoundError, match=f"expected {mini.archive}, "):
        read(mini, tmp_path)


@each_dataset
def test_the_environment_names_the_folder_unless_an_argument_does(mini, tmp_path, monkeypatch):
    mini.write_archive(tmp_path / "a", 1)
    mini.write_archive(tmp_path / "b", 2)
    monkeypatch.setenv("TATML_DATA", str(tmp_path / "a"))
    assert Path(read(mini, None).source).parent == tmp_path / "a"
    assert Path(read(mini, tmp_path / "b").source).parent == tmp_path / "b"


@each_dataset
@pytest.mark.parametrize("value", [None, ""])
def test_neither_argument_nor_environment(mini, monkeypatch, value):
    if value is not None:
        monkeypatch.setenv("TATML_DATA", value)
    with pytest.raises(ValueError, match=f"^folder: .*TATML_DATA, got neither. {ADVICE}"):
        read(mini, None)


@each_dataset
def test_a_path_may_be_text_bytes_relative_or_have_dots(mini, tmp_path, monkeypatch):
    mini.write_archive(tmp_path / "data")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    for folder in (b"../data", "../data", Path("../other/../data"), str(tmp_path / "data")):
        assert Path(read(mini, folder).source) == tmp_path / "data" / mini.archive


@each_dataset
def test_a_missing_folder_is_named(mini, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"^folder: .*got nothing at .*nowhere. {ADVICE}"):
        read(mini, tmp_path / "nowhere")


@each_dataset
def test_a_file_is_no_folder(mini, tmp_path):
    path = mini.write_archive(tmp_path)
    with pytest.raises(FileNotFoundError, match=f"^folder: .*got a file at .*npz. {ADVICE}"):
        read(mini, path)


@each_dataset
@pytest.mark.parametrize(("folder", "error"), [(3, TypeError), ("a\0b", ValueError)])
def test_what_is_no_path_is_named(mini, folder, error):
    with pytest.raises(error, match=r"^folder: expected a path, got"):
        read(mini, folder)


@each_dataset
def test_an_empty_folder_says_what_was_looked_for(mini, tmp_path):
    name, first = mini.layout.name, mini.layout.files[0][0]
    looked_for = f"^{name}: expected {mini.archive}, {name}/{mini.archive}, {name}/{first} and so"
    with pytest.raises(FileNotFoundError, match=f"{looked_for}.*contains nothing. {ADVICE}"):
        read(mini, tmp_path)
    (tmp_path / "holiday.jpg").touch()
    with pytest.raises(FileNotFoundError, match=rf"{looked_for}.*contains holiday\.jpg\."):
        read(mini, tmp_path)


@each_dataset
def test_files_with_other_names_are_not_read(mini, tmp_path):
    mini.write_tree(tmp_path)
    expected = read(mini, tmp_path)
    for name in ("99/1/1.png", "1/1/1 copy.png", "D0.gif", "D01.gif", "1/1/apple1-0-0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"not an image")
    assert_array_equal(read(mini, tmp_path).images, expected.images)


# Complete or not


def n_per_row(mini):
    return 9 if mini.layout.name == "brodatz" else 1


@each_dataset
def test_an_incomplete_tree_says_what_is_missing(mini, tmp_path):
    mini.write_tree(tmp_path, rows=[1])
    n, missing = mini.n_samples, mini.layout.files[0][0]
    with pytest.raises(ValueError, match=f"expected the {n} samples of .*found 1; ") as caught:
        read(mini, tmp_path)
    assert f"missing: {missing}, " in str(caught.value)
    assert ADVICE in str(caught.value)
    assert "allow_incomplete=True" in str(caught.value)


@each_dataset
def test_an_incomplete_archive_says_what_is_missing(mini, tmp_path):
    path = mini.write_archive(tmp_path, rows=range(1, mini.n_samples))
    names = ", ".join(mini.layout.files[0])
    with pytest.raises(ValueError, match=f"^{path}: .*missing: {names}. {ADVICE}"):
        read(mini, tmp_path)


@each_dataset
@pytest.mark.parametrize("write", ["write_tree", "write_archive"])
def test_what_is_there_can_be_loaded(mini, tmp_path, write):
    getattr(mini, write)(tmp_path / "some", rows=[0, 2])
    mini.write_archive(tmp_path / "all")
    part = read(mini, tmp_path / "some", allow_incomplete=True)
    whole = read(mini, tmp_path / "all")
    n = n_per_row(mini)
    kept = np.concatenate([np.arange(n), 2 * n + np.arange(n)])
    for name in {"images", "target", "groups", *ARRAYS[mini.layout.name]} - {"duplicates"}:
        assert_array_equal(part[name], whole[name][kept])
    assert_array_equal(part.target_names, whole.target_names)


@each_dataset
def test_nothing_at_all_is_never_a_dataset(mini, tmp_path):
    with pytest.raises(FileNotFoundError):
        read(mini, tmp_path, allow_incomplete=True)
    arrays = {name: array[:0] for name, array in mini.arrays().items() if name != "class_names"}
    mini.write_archive(tmp_path, **arrays)
    with pytest.raises(ValueError, match="found 0; missing: "):
        read(mini, tmp_path, allow_incomplete=True)


def test_an_image_without_its_map_is_missing(tmp_path):
    mini = MINIS["eth80"]
    mini.write_tree(tmp_path)
    gone = "1/2/maps/apple2-022-090-map.png"
    (tmp_path / gone).unlink()
    with pytest.raises(ValueError, match=f"found 15; missing: {gone}. {ADVICE}"):
        read(mini, tmp_path)
    assert len(read(mini, tmp_path, allow_incomplete=True).target) == 15


# Virus


def test_virus_keys(tmp_path):
    mini = MINIS["virus"]
    mini.write_tree(tmp_path)
    data = read(mini, tmp_path)
    expected = [(c, s, i) for c in (0, 1) for s in (1, 2) for i in (1, 2, 3)]
    assert list(zip(data.target, data.groups, data.numbers, strict=True)) == expected
    assert data.target_names.tolist() == ["1", "2"]
    assert_array_equal(data.images[[c * 6 for c in (0, 1)]], [mini.pixels()[i][0] for i in (0, 6)])


def test_duplicates_are_found_by_content(tmp_path):
    mini = MINIS["virus"]
    images = mini.arrays()["images"]
    images[7] = images[2]
    images[11] = images[2]
    images[5] = images[4]
    mini.write_archive(tmp_path, images=images)
    assert read(mini, tmp_path).duplicates.tolist() == [[2, 7], [2, 11], [4, 5], [7, 11]]


# Brodatz


@pytest.mark.parametrize("tile", [1, 3, 4, 12, None])
def test_tiles_make_up_the_image_again(tmp_path, tile):
    mini = MINIS["brodatz"]
    mini.write_tree(tmp_path)
    data = read(mini, tmp_path, tile=tile)
    side = tile or 12
    whole = np.zeros((3, 12, 12), dtype=np.uint8)
    for image, c, (row, column) in zip(data.images, data.target, data.positions, strict=True):
        whole[c, row : row + side, column : column + side] = image
    assert_array_equal(whole, [pixels for (pixels,) in mini.pixels()])
    assert data.target_names.tolist() == ["D1", "D2", "D3"]
    n_across = 12 // side
    rows, columns = (data.positions // side).T
    assert_array_equal(data.groups, rows * n_across + columns)
    assert len(data.images) == 3 * n_across**2


@pytest.mark.parametrize(
    ("tile", "error"), [(5, ValueError), (24, ValueError), (0, ValueError), (2.0, TypeError)]
)
def test_a_tile_must_divide_the_side(tmp_path, tile, error):
    mini = MINIS["brodatz"]
    mini.write_archive(tmp_path)
    with pytest.raises(error, match=r"^tile: expected"):
        read(mini, tmp_path, tile=tile)


def test_a_gif_with_another_palette_gives_its_greys(tmp_path):
    from PIL import Image

    mini = MINIS["brodatz"]
    mini.write_tree(tmp_path)
    indices = mini.pixels()[1][0]
    image = Image.frombytes("P", (12, 12), indices.tobytes())
    image.putpalette([255 - i for i in range(256) for _ in range(3)])
    image.save(tmp_path / "D2.gif", optimize=False)
    assert_array_equal(read(mini, tmp_path, tile=None).images[1], 255 - indices)


# ETH-80


def test_eth80_keys(tmp_path):
    mini = MINIS["eth80"]
    mini.write_tree(tmp_path)
    data = read(mini, tmp_path)
    assert_array_equal(data.target, np.repeat([0, 1], 8))
    assert_array_equal(data.groups, np.repeat(np.arange(8), 2))
    assert_array_equal(data.object_numbers, np.repeat([1, 2, 3, 4, 1, 2, 3, 11], 2))
    assert_array_equal(data.angles, np.tile([[0, 0], [22, 90]], (8, 1)))
    assert (tmp_path / "2/4/maps/car11-022-090-map.png").exists()


def test_masks_come_only_when_asked_for(tmp_path):
    mini = MINIS["eth80"]
    mini.write_tree(tmp_path / "a")
    mini.write_archive(tmp_path / "b", masks_packed=None)
    for folder in "ab":
        assert "masks" not in read(mini, tmp_path / folder, masks=False)
    with pytest.raises(ValueError, match="got no masks_packed"):
        read(mini, tmp_path / "b")


def test_images_as_distributed_can_have_any_size(tmp_path):
    mini = MINIS["eth80"]
    mini.write_tree(tmp_path / "a")
    mini.write_archive(tmp_path / "b")
    data = read(mini, tmp_path / "a", size=16)
    assert data.images.shape == (16, 16, 16, 3)
    assert data.masks.shape == (16, 16, 16)
    assert data.masks.dtype == bool
    with pytest.raises(ValueError, match=r"^size: expected 10, as in .*npz, got 16"):
        read(mini, tmp_path / "b", size=16)
    with pytest.raises(ValueError, match=r"^size: expected at least 1, got 0"):
        read(mini, tmp_path / "a", size=0)


def test_a_map_without_an_object_is_named(tmp_path):
    mini = MINIS["eth80"]
    mini.write_tree(tmp_path)
    path = tmp_path / "1/1/maps/apple1-000-000-map.png"
    write_image(path, np.full((20, 20), 127, dtype=np.uint8))
    with pytest.raises(ValueError, match=f"^{path}: expected a mask .*got none. {ADVICE}"):
        read(mini, tmp_path)


@given(st.data())
def test_the_crop_is_a_square_around_the_object(data):
    height, width = (data.draw(st.integers(1, 30)) for _ in range(2))
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    bottom = data.draw(st.integers(top + 1, height))
    right = data.draw(st.integers(left + 1, width))
    mask = np.zeros((height, width), dtype=bool)
    mask[[top, bottom - 1], [left, right - 1]] = True
    box = find_crop(mask)
    longest = max(bottom - top, right - left)
    assert box[2] - box[0] == box[3] - box[1] == round(1.2 * longest)
    assert abs(box[0] + box[2] - left - right) <= 1
    assert abs(box[1] + box[3] - top - bottom) <= 1
    image = np.arange(height * width).reshape(height, width)
    padded = np.pad(image, 40, mode="edge")
    assert_array_equal(
        crop(image, box), padded[box[1] + 40 : box[3] + 40, box[0] + 40 : box[2] + 40]
    )


def test_half_pixels_are_rounded_to_even():
    """As in the compact file: 10.5 becomes 10, and 11.5 becomes 12."""
    mask = np.zeros((256, 256), dtype=bool)
    mask[30:225, 30:226] = True  # 196 across: side 235, from 128 − 117.5 = 10.5
    assert find_crop(mask) == (10, 10, 245, 245)
    mask[:, 226:228] = True
    mask[:30] = mask[225:] = False
    mask[30:225, 30] = mask[30:225, 31] = mask[30:225, 32] = False  # 195 across, from 130.5 − 117
    assert find_crop(mask)[0] == 14


# The real layouts


@pytest.mark.parametrize(
    ("layout", "options"),
    [
        (VIRUS, {"allow_incomplete": True, "return_X_y": False}),
        (BRODATZ, {"tile": 4, "allow_incomplete": False, "return_X_y": True}),
        (ETH80, {"size": 7, "masks": True, "allow_incomplete": True, "return_X_y": False}),
    ],
)
def test_the_loaders_read_the_real_layouts(layout, options, monkeypatch):
    name = layout.name
    reader = getattr(_loaders, f"read_{name}")

    def record(*args):
        return dict(zip(signature(reader).parameters, args, strict=True))

    monkeypatch.setattr(_loaders, f"read_{name}", record)
    call = getattr(_loaders, f"load_{name}")("folder", **options)
    assert call.pop("layout") is layout
    assert call == {"folder": "folder"} | options
    sizes = {"brodatz": {"tile": 80}, "eth80": {"size": 128, "masks": False}}.get(name, {})
    default = getattr(_loaders, f"load_{name}")()
    default.pop("layout")
    assert default == {"folder": None, "allow_incomplete": False, "return_X_y": False} | sizes


def test_the_layouts_count_what_the_datasets_hold():
    layouts = VIRUS, BRODATZ, ETH80
    assert [len(layout.keys) for layout in layouts] == [15 * 5 * 20, 112, 8 * 10 * 41]
    assert BRODATZ.image_shape == BRODATZ.compact_shape == (640, 640)
    for layout in layouts:
        assert len(set(layout.files)) == len(np.unique(layout.keys, axis=0)) == len(layout.files)
    assert VIRUS.files[-1] == ("15/5/20.png",)
    assert BRODATZ.files[-1] == ("D112.gif",)
    assert ETH80.files[-1][0] == "8/10/tomato10-090-338.png"
    multiples = {step: range(0, 360, step) for step in (45, 90)}
    around = {
        0: [0],
        35: [a for a in multiples[45] if a not in multiples[90]],
        66: [a + turn for a in multiples[90] for turn in (27, 63)],
        90: [round(22.5 * k) for k in range(16)],
    } | dict.fromkeys((22, 45, 68), multiples[90])
    views = {f"{polar:03}-{azimuth:03}" for polar, turns in around.items() for azimuth in turns}
    assert {name[-11:-4] for name, _ in ETH80.files} == views
    cars = {name for name, _ in ETH80.files if name.startswith("2/")}
    assert {"2/4/car11-000-000.png", "2/8/car12-000-000.png", "2/10/car14-000-000.png"} <= cars
