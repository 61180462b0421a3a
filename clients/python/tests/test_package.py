"""What the installed package contains."""

from importlib import metadata, resources

import ragwire


def test_the_version_is_that_of_the_wheel() -> None:
    assert ragwire.__version__ == metadata.version("ragwire")


def test_the_wheel_has_types_and_licence_texts() -> None:
    assert resources.files("ragwire").joinpath("py.typed").is_file()
    names = {file.name for file in metadata.files("ragwire") or []}
    assert {"LICENSE-MIT", "LICENSE-APACHE"} <= names
