"""Accessors for the content of SuperDSC files."""

import torch  # noqa: F401  (first: loads the libraries that _C needs)

from torch_spyre._inductor.superdsc import generate_sdsc, parse_op_spec


def sdsc(spec, index=0):
    """Return the top-level entry of the SuperDSC file of an op, and its DSC."""
    ((_, body),) = generate_sdsc(index, parse_op_spec(spec)).items()
    ((_, dsc),) = body["dscs_"][0].items()
    return body, dsc


def starts(dsc, position):
    """Return the start address of a tensor on each core."""
    data = dsc["scheduleTree_"][position]["startAddressCoreCorelet_"]["data_"]
    return [data[f"[{core}, 0, 0]"] for core in range(len(data))]


def coordinate_terms(dsc, position, label):
    """Return (alpha, factor) of each term of a dim's coordinate, by the term's label."""
    terms = dsc["scheduleTree_"][position]["coordinates_"]["coordInfo"][label]["folds"]
    return {
        attribute["label_"]: (function["Affine"]["alpha_"], attribute["factor_"])
        for function, attribute in zip(terms["dim_prop_func"], terms["dim_prop_attr"], strict=True)
    }
