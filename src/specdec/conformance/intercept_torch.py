"""The torch half of ``intercept``, which imports it lazily: tensors whose elements are random numbers without a value yet."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from specdec.chance import Chance
from specdec.conformance.intercept import PURPOSE, TINY, draws, exact_number, exact_weights, exponentials, refuse, uniforms
from specdec.law import Array

_KNOWN: dict[str, Callable[..., Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "add": operator.add, "sub": operator.sub, "subtract": operator.sub, "mul": operator.mul, "multiply": operator.mul,
    "div": operator.truediv, "divide": operator.truediv, "true_divide": operator.truediv, "neg": operator.neg,
    "negative": operator.neg, "log": np.log, "log1p": np.log1p, "exp": np.exp, "reciprocal": lambda x: 1 / x,
    "__rsub__": lambda x, y: y - x, "rsub": lambda x, y: y - x, "__rdiv__": lambda x, y: y / x,
}  # fmt: skip
"""Elementwise functions by their names; the forms in place have a further underscore."""

_ARRANGES = (
    "__getitem__", "view", "reshape", "squeeze", "unsqueeze", "expand", "expand_as", "view_as", "transpose", "permute", "t",
    "flatten", "contiguous", "index_select", "gather", "select", "narrow", "detach", "unbind", "split", "chunk", "clone",
)  # fmt: skip
"""Functions that only rearrange elements."""

_KEEPS = ("to", "float", "double", "half", "bfloat16", "cpu", "cuda", "type_as", "requires_grad_")
"""Functions of type and place: a random number has neither."""

_DESCRIBES = ("__len__", "size", "dim", "ndimension", "numel", "nelement", "is_floating_point", "stride", "is_contiguous")
_PROPERTIES = ("shape", "dtype", "device", "ndim", "layout", "is_cuda", "requires_grad", "is_sparse", "names")


class SymbolicTensor(torch.Tensor):
    """A tensor of ``Uniform`` or ``Noise``: element i is ``store[at[i]]``, so views share their elements as torch's do."""

    store: Array
    at: torch.Tensor

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"SymbolicTensor({self.store.tolist()})"

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Comparisons give ordinary tensors of bool, arithmetic random numbers, argmax and argmin ordinary indices."""
        with torch._C.DisableTorchFunctionSubclass():
            return _follow(func, args, kwargs or {})


def _follow(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.__name__
    described = getattr(func, "__self__", None)  # for the getter of a property: the property
    if name in _DESCRIBES or (name == "__get__" and getattr(described, "__name__", None) in _PROPERTIES):
        return func(*args, **kwargs)
    if name in _KEEPS:
        return args[0]
    if name in _ARRANGES and isinstance(args[0], SymbolicTensor):
        return _arranged(func, args, kwargs)
    plain = name if name.startswith("__") else name.removesuffix("_")
    if plain in _KNOWN and not kwargs:
        result = _KNOWN[plain](*(_elements(arg) for arg in args))
        return _as_tensor(result, args) if plain == name else _put(args[0], result)
    if plain in ("clamp", "clamp_min", "clip") and _is_guard(*args[1:], **kwargs):
        return args[0]
    if name in ("argmax", "argmin"):
        return _raced(name, *args, **kwargs)
    if name == "searchsorted":
        return _searched(*args, **kwargs)
    if name in ("item", "tolist"):
        return getattr(_elements(args[0]), name)()
    return refuse(
        f"torch's {name} on random numbers{f' with {sorted(kwargs)}' if kwargs else ''}",
        "compare them with tensors, scale and shift them, or take the argmax of p / e, log p + g; pass the rest as plain tensors",
    )


def _is_guard(min: Any = None, max: Any = None) -> bool:
    """Whether a clamp does no more than to keep noise off 0."""
    return max is None and min is not None and 0 <= min <= TINY


def _elements(value: Any) -> Any:
    """The elements of a tensor as an object array, random numbers or floats; a number as it is."""
    if isinstance(value, SymbolicTensor):
        out = np.empty(tuple(value.at.shape), dtype=object)
        out[...] = value.store[value.at.numpy()]
        return out
    if not isinstance(value, torch.Tensor):
        return value
    out = np.empty(tuple(value.shape), dtype=object)
    out[...] = np.array(value.detach().cpu().tolist(), dtype=object)
    return out


def _symbolic(elements: Array, like: torch.Tensor) -> SymbolicTensor:
    """A new tensor of random numbers with the dtype and device of another."""
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return _put(torch.empty(elements.shape, dtype=dtype, device=like.device), elements)


def _put(tensor: torch.Tensor, elements: Any) -> Any:
    """Write random numbers into a tensor, which becomes symbolic; a symbolic one's views see it too."""
    elements = np.broadcast_to(np.asarray(elements, dtype=object), tuple(tensor.shape))
    if isinstance(tensor, SymbolicTensor):
        tensor.store[tensor.at.numpy()] = elements
        return tensor
    if tensor._base is not None:
        refuse("writing random numbers into a part or view of an ordinary tensor", "fill the whole tensor, or work out of place")
    tensor.__class__ = SymbolicTensor
    tensor.store = elements.flatten()  # type: ignore[attr-defined]
    tensor.at = torch.arange(elements.size).reshape(elements.shape)  # type: ignore[attr-defined]
    return tensor


def _as_tensor(result: Any, args: Any) -> torch.Tensor:
    first = next(arg for arg in args if isinstance(arg, SymbolicTensor))
    elements = np.asarray(result)
    if elements.dtype == bool:
        return torch.from_numpy(elements.copy()).to(first.device)
    return _symbolic(np.asarray(elements, dtype=object), first)


def _arranged(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The function applied to the positions instead of the elements."""
    whole, rest = args[0], [arg.at if isinstance(arg, SymbolicTensor) else arg for arg in args[1:]]

    def view(at: torch.Tensor) -> SymbolicTensor:
        made = _symbolic(np.empty(tuple(at.shape), dtype=object), whole)
        made.store, made.at = (whole.store.copy() if func.__name__ == "clone" else whole.store), at
        return made

    at = func(whole.at, *rest, **kwargs)
    return view(at) if isinstance(at, torch.Tensor) else type(at)(view(each) for each in at)


def _raced(name: str, tensor: SymbolicTensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    winners = getattr(np, name)(_elements(tensor), axis=dim, keepdims=keepdim)
    return torch.as_tensor(winners, device=tensor.device)


def _searched(cells: Any, values: Any, *, right: bool = False, side: str | None = None, out_int32: bool = False) -> torch.Tensor:
    """torch.searchsorted for ordinary cells (..., V) and random values (..., n), or (V,) and any shape."""
    rows, wanted = _elements(cells), _elements(values)
    found = np.empty(wanted.shape, dtype=int)
    for index in np.ndindex(wanted.shape):
        row = rows if rows.ndim == 1 else rows[index[:-1]]
        found[index] = row.searchsorted(wanted[index], side or ("right" if right else "left"))
    return torch.as_tensor(found, dtype=torch.int32 if out_int32 else torch.int64)


# ---- torch's random functions -----------------------------------------------------------------------------------------


class Calls(TorchFunctionMode):
    """While active, the random functions of torch ask the chance; see ``intercept.torch_calls``."""

    def __init__(self, chance: Chance) -> None:
        super().__init__()
        self._chance = chance

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a random function, pass any other on."""
        kwargs = dict(kwargs or {})
        if func in _ANSWERS:
            kwargs.pop("generator", None)
            return _ANSWERS[func](self._chance, *args, **kwargs)
        if func.__name__ in _REFUSED and not ("dropout" in func.__name__ and not kwargs.get("training", True)):
            refuse(f"torch's random {func.__name__}", f"interception answers {', '.join(f.__name__ for f in _ANSWERS)}")
        return func(*args, **kwargs)


def _fill(tensor: torch.Tensor, numbers: Any) -> torch.Tensor:
    """Write random numbers in place: ordinary ones where the chance's uniforms are numbers."""
    values = np.asarray(numbers)
    return _put(tensor, values) if values.dtype == object else tensor.copy_(torch.from_numpy(values))


def _rand(chance: Chance, *size: Any, **kwargs: Any) -> torch.Tensor:
    return _uniform_(chance, torch.empty(*size, **kwargs))


def _rand_like(chance: Chance, tensor: torch.Tensor, **kwargs: Any) -> torch.Tensor:
    return _rand(chance, tensor.shape, **{"dtype": tensor.dtype, "device": tensor.device, **kwargs})


def _uniform_(chance: Chance, tensor: torch.Tensor, *bounds: float, **named: float) -> torch.Tensor:
    low = bounds[0] if bounds else named.get("from", 0)
    high = bounds[1] if len(bounds) > 1 else named.get("to", 1)
    values = uniforms(chance, tuple(tensor.shape))
    if values.dtype != object:  # rounded to the tensor's precision, 1 - 2**-53 would be 1
        values = np.minimum(values, 1 - torch.finfo(tensor.dtype).eps / 2)
    return _fill(tensor, low + (high - low) * values)


def _exponential_(chance: Chance, tensor: torch.Tensor, lambd: float = 1.0) -> torch.Tensor:
    return _fill(tensor, exponentials(chance, tuple(tensor.shape)) / lambd)


def _multinomial(chance: Chance, weights: torch.Tensor, num_samples: int, replacement: bool = False) -> torch.Tensor:
    rows = _elements(weights).reshape(-1, weights.shape[-1])
    try:
        drawn = [draws(chance, exact_weights(row), num_samples, replacement) for row in rows]
    except ValueError as error:
        # The words of torch, for code that looks at them.
        message = f"probability tensor contains either `inf`, `nan` or element < 0, or has no mass: {weights.tolist()}"
        raise RuntimeError(message) from error
    return torch.tensor(drawn, dtype=torch.int64, device=weights.device).reshape(*weights.shape[:-1], num_samples)


def _bernoulli(chance: Chance, tensor: torch.Tensor, p: Any = None) -> torch.Tensor:
    return _bernoulli_(chance, torch.empty_like(tensor), tensor if p is None else p)


def _bernoulli_(chance: Chance, tensor: torch.Tensor, p: Any = 0.5) -> torch.Tensor:
    elements = np.broadcast_to(np.asarray(_elements(p), dtype=object), tuple(tensor.shape))
    accepted = [chance.accept(exact_number(probability), PURPOSE) for probability in elements.flat]
    return tensor.copy_(torch.tensor(accepted).reshape(tensor.shape))


_ANSWERS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.rand: _rand,
    torch.rand_like: _rand_like,
    torch.multinomial: _multinomial,
    torch.bernoulli: _bernoulli,
    torch.Tensor.uniform_: _uniform_,
    torch.Tensor.exponential_: _exponential_,
    torch.Tensor.multinomial: _multinomial,
    torch.Tensor.bernoulli: _bernoulli,
    torch.Tensor.bernoulli_: _bernoulli_,
}

_REFUSED = {
    "randn", "randn_like", "randint", "randint_like", "randperm", "normal", "poisson", "binomial", "normal_", "cauchy_",
    "geometric_", "log_normal_", "random_", "gumbel_softmax", "rrelu", "dropout", "alpha_dropout", "feature_alpha_dropout",
}  # fmt: skip
