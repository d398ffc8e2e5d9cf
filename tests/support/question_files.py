"""Question files as users write them, for tests."""

import h5py
import numpy as np


def arrays(n=6, examples=3, points=8, seed=0, dtype=np.float32):
    """Seven questions' arrays in the plain layout: one common grid, one channel."""
    random = np.random.default_rng(seed)
    grid = (np.arange(points) / points).astype(dtype)

    def values(*axes):
        return random.standard_normal((n, *axes, points, 1)).astype(dtype)

    return {
        "input_values": values(examples),
        "output_values": values(examples),
        "query_values": values(),
        "input_coords": grid[:, None],
        "target": values(),
    }


def write_npz(path, content, **notes):
    np.savez(path, **content, **notes)
    return path


def write_compressed(path, content, **notes):
    np.savez_compressed(path, **content, **notes)
    return path


def write_hdf5(path, content, **notes):
    with h5py.File(path, "w") as file:
        for name, values in content.items():
            file[name] = values
        file.attrs.update(notes)
    return path


def write_netcdf(path, content, **notes):
    import xarray

    def variable(name, values):
        return [f"{name}_{axis}" for axis in range(values.ndim)], values

    data = xarray.Dataset({name: variable(name, values) for name, values in content.items()}, attrs=notes)
    data.to_netcdf(path, engine="h5netcdf")
    return path


WRITERS = {
    "npz": ("q.npz", write_npz),
    "compressed npz": ("q.npz", write_compressed),
    "HDF5": ("q.h5", write_hdf5),
    "NetCDF": ("q.nc", write_netcdf),
}
