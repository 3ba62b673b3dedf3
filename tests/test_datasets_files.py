"""Errors name files that are damaged, too large, of another kind, or outside the folder."""

import io
import re
import zipfile

import numpy as np
import pytest
from datasets_helpers import ADVICE, MINIS, each_dataset, png_header, read, write_image
from numpy.testing import assert_array_equal

pytest.importorskip("PIL")


@pytest.fixture(autouse=True)
def no_folder_in_the_environment(monkeypatch):
    monkeypatch.delenv("TATML_DATA", raising=False)


def assert_named(mini, folder, path, problem=""):
    """Assert that the error names the file and says where to put the data."""
    with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: .*{problem}") as caught:
        read(mini, folder)
    assert ADVICE + mini.archive in str(caught.value)


# Images


@each_dataset
def test_a_truncated_image_is_named(mini, tmp_path):
    path = mini.write_tree(tmp_path)[-1]
    content = path.read_bytes()
    for n_bytes in (0, 3, 20, 40, len(content) // 2, len(content) - 20):
        path.write_bytes(content[:n_bytes])
        assert_named(mini, tmp_path, path)


def test_a_change_of_any_byte_of_a_png_file_is_found(tmp_path):
    """The last chunk is empty, and Pillow does not verify it."""
    mini = MINIS["virus"]
    path = mini.write_tree(tmp_path)[-1]
    content = path.read_bytes()
    for position in range(len(content) - 12):
        changed = bytearray(content)
        changed[position] ^= 0x10
        path.write_bytes(changed)
        assert_named(mini, tmp_path, path)


@each_dataset
@pytest.mark.parametrize("kind", ["JPEG", "BMP", "TIFF", "PPM"])
def test_another_format_under_the_same_name_is_refused(mini, tmp_path, kind):
    path = mini.write_tree(tmp_path)[0]
    write_image(path, mini.pixels()[0][0], format=kind)
    assert_named(mini, tmp_path, path, "expected a readable file, got UnidentifiedImageError")


@pytest.mark.parametrize("side", [7000, 12000, 50000])
def test_a_huge_image_is_refused_by_its_header(tmp_path, side):
    mini = MINIS["virus"]
    path = mini.write_tree(tmp_path)[0]
    path.write_bytes(png_header(side, side))
    assert_named(mini, tmp_path, path, "7000×7000" if side == 7000 else "Decompression")


def test_a_huge_gif_is_refused_by_its_header(tmp_path):
    mini = MINIS["brodatz"]
    path = mini.write_tree(tmp_path)[0]
    content = bytearray(path.read_bytes())
    content[6:10] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    assert_named(mini, tmp_path, path, "Decompression")


@each_dataset
def test_a_huge_file_is_refused_before_it_is_opened(mini, tmp_path):
    path = mini.write_tree(tmp_path)[0]
    with path.open("r+b") as file:
        file.truncate(2**24 + 1)
    assert_named(mini, tmp_path, path, "expected at most 16777216 bytes, got more")


@each_dataset
def test_an_image_of_another_size_is_named(mini, tmp_path):
    path = mini.write_tree(tmp_path)[0]
    height, width = mini.layout.image_shape
    write_image(path, mini.pixels()[0][0][:, :-1])
    problem = f"expected an image of {height}×{width} pixels, got {height}×{width - 1}"
    assert_named(mini, tmp_path, path, problem)


@pytest.mark.parametrize("name", ["virus", "eth80"])
@pytest.mark.parametrize("channels", ["I;16", "RGBA", "other"])
def test_other_kinds_of_pixels_are_named(tmp_path, name, channels):
    mini = MINIS[name]
    path = mini.write_tree(tmp_path)[0]
    side = mini.layout.image_shape[0]
    other = (side, side) if name == "eth80" else (side, side, 3)
    arrays = {
        "I;16": np.full((side, side), 300, dtype=np.uint16),
        "RGBA": np.full((side, side, 4), 9, dtype=np.uint8),
        "other": np.zeros(other, dtype=np.uint8),
    }
    write_image(path, arrays[channels])
    assert_named(mini, tmp_path, path, "expected pixels of mode")


def test_a_damaged_map_is_named(tmp_path):
    mini = MINIS["eth80"]
    path = mini.write_tree(tmp_path)[1]
    assert path.name == "apple1-000-000-map.png"
    path.write_bytes(b"no map")
    assert_named(mini, tmp_path, path)


# Compact files


@each_dataset
def test_a_truncated_archive_is_named(mini, tmp_path):
    path = mini.write_archive(tmp_path)
    content = path.read_bytes()
    for n_bytes in (0, 3, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:n_bytes])
        assert_named(mini, tmp_path, path)


@each_dataset
def test_a_changed_bit_is_found_by_the_checksum(mini, tmp_path):
    np.savez(tmp_path / mini.archive, **mini.arrays())  # not compressed: every bit is a pixel's
    path = tmp_path / mini.archive
    content = bytearray(path.read_bytes())
    content[content.index(mini.arrays()["images"].tobytes()) + 5] ^= 1
    path.write_bytes(content)
    assert_named(mini, tmp_path, path, "BadZipFile: Bad CRC-32 for file 'images.npy'")


@each_dataset
def test_pickled_objects_are_refused(mini, tmp_path):
    images = np.empty(len(mini.layout.keys), dtype=object)
    path = mini.write_archive(tmp_path, images=images)
    assert_named(mini, tmp_path, path, "images: expected an array of uint8, got object")


@each_dataset
def test_a_plain_npy_file_is_refused(mini, tmp_path):
    path = tmp_path / mini.archive
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    assert_named(mini, tmp_path, path, "BadZipFile")


@each_dataset
@pytest.mark.parametrize("dtype", ["float64", "int16", "bool", "V1", ">u2", "S1"])
def test_images_must_be_uint8(mini, tmp_path, dtype):
    images = mini.arrays()["images"]
    path = mini.write_archive(tmp_path, images=np.zeros(images.shape, dtype=dtype))
    assert_named(mini, tmp_path, path, "images: expected an array of uint8, got ")


@each_dataset
@pytest.mark.parametrize("dtype", ["float64", "U3", "complex128", "datetime64[s]"])
def test_labels_must_be_integers(mini, tmp_path, dtype):
    labels = np.zeros(len(mini.layout.keys), dtype=dtype)
    path = mini.write_archive(tmp_path, labels=labels)
    assert_named(mini, tmp_path, path, "labels: expected an array of integer, got ")


@each_dataset
def test_images_of_another_shape_are_named(mini, tmp_path):
    images = mini.arrays()["images"]
    for wrong in (images[:, 1:], images[..., None], images[1:], images.ravel()):
        path = mini.write_archive(tmp_path, images=wrong)
        problem = re.escape(f"images: expected shape {images.shape}, got {wrong.shape}")
        assert_named(mini, tmp_path, path, problem)


@each_dataset
def test_every_array_has_to_be_there(mini, tmp_path):
    for name in mini.arrays():
        path = mini.write_archive(tmp_path, **{name: None})
        assert_named(mini, tmp_path, path, f"expected the arrays .*got no {name}")


@each_dataset
def test_labels_that_do_not_exist_are_named(mini, tmp_path):
    labels = mini.arrays()["labels"].astype(int)
    for wrong in (-1, 200, 2**62):
        labels[1] = wrong
        path = mini.write_archive(tmp_path, labels=labels)
        assert_named(mini, tmp_path, path, rf"labels and groups: .*got \[{wrong}.* in row 1\.")


@each_dataset
def test_samples_twice_or_out_of_order_are_named(mini, tmp_path):
    n = mini.n_samples
    for rows, wrong in (([0, 1, 1, *range(3, n)], 2), ([1, 0, *range(2, n)], 1)):
        path = mini.write_archive(tmp_path, rows=rows)
        assert_named(
            mini,
            tmp_path,
            path,
            rf"expected rows in ascending order without duplicates, got .* in row {wrong} after",
        )


@each_dataset
def test_more_samples_than_the_dataset_has_are_refused(mini, tmp_path):
    n = mini.n_samples
    path = mini.write_archive(tmp_path, rows=[*range(n), 0])
    assert_named(mini, tmp_path, path, f"labels: expected at most {n} numbers, got shape")


def test_other_class_names_are_refused(tmp_path):
    mini = MINIS["eth80"]
    path = mini.write_archive(tmp_path, class_names=np.array(["car", "apple"]))
    assert_named(mini, tmp_path, path, "class_names: expected .*got")
    path = mini.write_archive(tmp_path, class_names=np.array(["car" * 99, "apple"]))
    assert_named(mini, tmp_path, path, "class_names: expected an array of text")


def npy_bytes(shape, n_bytes, dtype="|u1"):
    """Return an npy file whose header states a shape, with some bytes of data."""
    stream = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue() + bytes(n_bytes)


def replace_member(path, name, content):
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    members[name] = content
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)


@each_dataset
def test_a_header_that_claims_a_huge_array_is_refused(mini, tmp_path):
    path = mini.write_archive(tmp_path)
    replace_member(path, "labels.npy", npy_bytes((10**12,), 8))
    assert_named(mini, tmp_path, path, r"labels: expected at most \d+ numbers")
    path = mini.write_archive(tmp_path)
    replace_member(path, "images.npy", npy_bytes((10**6, 10**6, 10**6), 8))
    assert_named(mini, tmp_path, path, "images: expected shape")


@each_dataset
@pytest.mark.parametrize("extra", [-1, 1, 10**7])
def test_data_longer_or_shorter_than_the_header_says_is_refused(mini, tmp_path, extra):
    path = mini.write_archive(tmp_path)
    images = mini.arrays()["images"]
    replace_member(path, "images.npy", npy_bytes(images.shape, images.size + extra))
    problem = f"images: expected {images.size} bytes, got {images.size + extra}"
    assert_named(mini, tmp_path, path, problem)


@each_dataset
def test_damaged_headers_are_named(mini, tmp_path):
    good = npy_bytes((mini.n_samples,), mini.n_samples)
    for content, problem in (
        (b"", ""),
        (good[:9], ""),
        (b"x" + good[1:], ""),
        (good.replace(b"{", b"("), ""),
        (good[:6] + b"\x09" + good[7:], r"labels: expected npy format 1.0 or 2.0, got \(9, 0\)"),
    ):
        path = mini.write_archive(tmp_path)
        replace_member(path, "labels.npy", content)
        assert_named(mini, tmp_path, path, problem)


@each_dataset
def test_members_with_paths_are_not_taken_for_arrays(mini, tmp_path):
    path = mini.write_archive(tmp_path, images=None)
    replace_member(path, "../images.npy", npy_bytes((3,), 3))
    assert_named(mini, tmp_path, path, "got no images")
    assert not (tmp_path.parent / "images.npy").exists()


@each_dataset
def test_arrays_in_fortran_order_are_read(mini, tmp_path):
    images = mini.arrays()["images"]
    mini.write_archive(tmp_path / "a", images=np.asfortranarray(images))
    mini.write_archive(tmp_path / "b")
    assert_array_equal(read(mini, tmp_path / "a").images, read(mini, tmp_path / "b").images)


# Links and odd files


@each_dataset
def test_a_link_to_a_file_outside_is_refused(mini, tmp_path):
    path = mini.write_tree(tmp_path / "data")[0]
    outside = tmp_path / "outside.png"
    path.rename(outside)
    path.symlink_to(outside)
    problem = f"got a link to {re.escape(str(outside))}. Links that leave"
    assert_named(mini, tmp_path / "data", path, problem)
    path.unlink()
    path.symlink_to("/".join([".."] * 12) + str(outside))
    assert_named(mini, tmp_path / "data", path, problem)


def test_a_folder_with_a_similar_name_is_outside(tmp_path):
    mini = MINIS["brodatz"]
    path = mini.write_tree(tmp_path / "data")[0]
    (tmp_path / "data2").mkdir()
    path.rename(tmp_path / "data2" / path.name)
    path.symlink_to(tmp_path / "data2" / path.name)
    assert_named(mini, tmp_path / "data", path, "Links that leave")


@each_dataset
def test_a_link_to_a_folder_outside_is_refused(mini, tmp_path):
    mini.write_tree(tmp_path / "outside")
    link = tmp_path / "data" / mini.layout.name
    link.parent.mkdir()
    link.symlink_to(tmp_path / "outside", target_is_directory=True)
    with pytest.raises(ValueError, match=f"^{re.escape(str(link))}.*Links that leave.*{ADVICE}"):
        read(mini, tmp_path / "data")
    assert len(read(mini, link).images)  # the folder that the user names may be a link


@each_dataset
def test_an_archive_that_is_a_link_outside_is_refused(mini, tmp_path):
    mini.write_archive(tmp_path / "outside")
    link = tmp_path / "data" / mini.archive
    link.parent.mkdir()
    link.symlink_to(tmp_path / "outside" / mini.archive)
    assert_named(mini, tmp_path / "data", link, "Links that leave")


@each_dataset
def test_links_that_stay_inside_are_followed(mini, tmp_path):
    path = mini.write_tree(tmp_path / "data")[0]
    expected = read(mini, tmp_path / "data").images
    path.rename(tmp_path / "data" / "store")
    path.symlink_to(tmp_path / "data" / "store")
    assert_array_equal(read(mini, tmp_path / "data").images, expected)


@each_dataset
@pytest.mark.parametrize("kind", ["loop", "broken", "folder"])
def test_what_is_no_file_is_missing(mini, tmp_path, kind):
    path = mini.write_tree(tmp_path)[0]
    path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path if kind == "loop" else path.parent / "nothing")
    with pytest.raises(ValueError, match=f"missing: {mini.layout.files[0][0]}. {ADVICE}"):
        read(mini, tmp_path)
