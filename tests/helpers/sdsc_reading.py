"""What tests look at in a SuperDSC file."""

import torch  # noqa: F401  (first: our libraries need its)

from torch_spyre._inductor.superdsc import generate_sdsc, parse_op_spec


def sdsc(spec, index=0):
    """Content of the one entry, and of its one DSC."""
    ((_, body),) = generate_sdsc(index, parse_op_spec(spec)).items()
    ((_, dsc),) = body["dscs_"][0].items()
    return body, dsc


def starts(dsc, position):
    data = dsc["scheduleTree_"][position]["startAddressCoreCorelet_"]["data_"]
    return [data[f"[{core}, 0, 0]"] for core in range(len(data))]


def folds(dsc, position, label):
    """(alpha, factor) by the fold's name."""
    shown = dsc["scheduleTree_"][position]["coordinates_"]["coordInfo"][label]["folds"]
    return {
        attribute["label_"]: (function["Affine"]["alpha_"], attribute["factor_"])
        for function, attribute in zip(shown["dim_prop_func"], shown["dim_prop_attr"], strict=True)
    }
