"""What is shipped, what it says it needs, and what is said when that is not there."""

import ast
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import chop

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
IMPORTED_AS = {"pillow": "PIL"}
# hypothesis: strategies of chop.testing, for those who write tests; sklearn: only when it asks an estimator
HARNESS = {"chop", "hypothesis", "sklearn"}


def requirements(lines):
    """Those of a list that are not this project itself."""
    found = [Requirement(line) for line in lines]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]


def pins(name):
    """Versions by name, of a file of constraints."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def lowest(requirement):
    (bound,) = (spec.version for spec in requirement.specifier if spec.operator == ">=")
    return Version(bound)


def imported(source):
    """Top-level names of what is imported anywhere in a file."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The names of all files in a wheel that is built from a copy."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(out), str(copy)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (file,) = out.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        yield archive


def test_the_wheel_holds_weights_cards_and_types(wheel):
    names = set(wheel.namelist())
    assert len(chop.icon.bundled()) == 4
    for network in chop.icon.bundled():
        assert {f"chop/icon/weights/{network}.safetensors", f"chop/icon/weights/{network}.md"} <= names
    assert "chop/py.typed" in names
    assert {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")} <= names


def test_the_wheel_holds_nothing_else(wheel):
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"chop", f"chain_of_operators-{chop.__version__}.dist-info"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or name.endswith((".nbi", ".nbc"))]


def test_the_wheel_names_the_command_and_the_licence(wheel):
    about = f"chain_of_operators-{chop.__version__}.dist-info"
    assert "chop = chop.cli:main" in wheel.read(f"{about}/entry_points.txt").decode()
    assert b"Apache License" in wheel.read(f"{about}/licenses/LICENSE")
    told = wheel.read(f"{about}/METADATA").decode()
    assert "License-Expression: Apache-2.0" in told
    assert {f"Provides-Extra: {extra}" for extra in EXTRAS} <= set(told.splitlines())


def test_there_is_one_version():
    assert PROJECT["version"] == chop.__version__ == metadata.version(PROJECT["name"])
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, flags=re.MULTILINE)[1] == chop.__version__


def test_lowest_versions_are_those_declared():
    pinned = pins("constraints-lowest.txt")
    tested = [*PROJECT["dependencies"], *EXTRAS["air"], *EXTRAS["jax"], *EXTRAS["studio"], *EXTRAS["dev"]]
    for requirement in requirements(tested):
        version = Version(pinned[requirement.name])
        assert requirement.specifier.contains(version), f"{requirement} leaves out {version}"
        if requirement.name != "torch":  # one build serves all checks
            assert version == lowest(requirement), f"{requirement} is tested with {version}"
    assert pinned["torch"] == pins("constraints.txt")["torch"]


def test_everything_named_is_pinned_for_the_checks():
    pinned = pins("constraints.txt")
    everything = [*PROJECT["dependencies"], *(line for lines in EXTRAS.values() for line in lines)]
    for requirement in requirements(everything):
        assert requirement.name in pinned, f"constraints.txt does not pin {requirement.name}"
        assert requirement.specifier.contains(pinned[requirement.name])


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    dynamic = re.findall(r'import_module\("(\w+)"\)', "\n".join(sources.values()))
    used = set(dynamic).union(*map(imported, sources.values())) - sys.stdlib_module_names - HARNESS
    extras = [line for extra in ("air", "jax", "ray", "studio") for line in EXTRAS[extra]]
    declared = requirements([*PROJECT["dependencies"], *extras])
    assert used == {IMPORTED_AS.get(requirement.name, requirement.name) for requirement in declared}


def test_language_models_need_nothing_but_the_standard_library():
    assert EXTRAS["llm"] == []
    for name in ("chat", "language_agents"):
        source = (ROOT / "src" / "chop" / "evolution" / f"{name}.py").read_text(encoding="utf-8")
        assert imported(source) <= sys.stdlib_module_names | {"chop"}


def test_every_extra_has_its_check():
    file = ROOT / ".ci" / "install_check.py"
    spec = importlib.util.spec_from_file_location("install_check", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    assert set(module.WITH_EXTRA) == set(EXTRAS)
    steps = [*module.WITHOUT_EXTRAS, *(step for steps in module.WITH_EXTRA.values() for step in steps)]
    named = [Path(word) for step in steps for word in step.words if word.startswith(str(ROOT))]
    assert named
    assert not [path for path in named if not path.exists()]


def use_jax():
    chop.from_jax(abs)


def use_xarray():
    from chop.problems.air.dataset import require_xarray

    require_xarray()


def use_ray():
    from chop.runs.pool import Site
    from chop.runs.pool.cluster import Ray

    Ray(Site(dict, 1, "nothing", chop.ChopError))


def use_studio():
    from pathlib import Path

    from chop.studio.server import serve
    from chop.studio.settings import Settings

    serve(Settings(0, "token", Path("nowhere")), 0, print)


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("jax", "jax", use_jax),
        ("xarray", "air", use_xarray),
        ("h5netcdf", "air", use_xarray),
        ("ray", "ray", use_ray),
        ("nicegui", "studio", use_studio),
    ],
)
def test_a_missing_extra_is_named(module, extra, use, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(chop.ChopError, match=re.escape(f"pip install 'chain-of-operators[{extra}]'")):
        use()
