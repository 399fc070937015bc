"""Numbers in running text: three significant digits and the unit that fits."""

from __future__ import annotations

from inputs.quantities import format_quantity

PS_PER_NS = 1000


def seconds(value: float) -> str:
    """A duration: ``53.9 ms``."""
    return format_quantity(value, "s").replace(" us", " \N{MICRO SIGN}s") if value else "0"


def long_time(value: float) -> str:
    """A duration of a job: ``4.64 h``; below two minutes as `seconds`."""
    for factor, unit in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if value >= 2 * factor:
            number = value / factor
            return f"{_three_digits(number) if number < 999.5 else f'{number:,.0f}'} {unit}"
    return seconds(value)


def picoseconds(value: float) -> str:
    """A duration given in ps."""
    return seconds(value / 1e12)


def percent(share: float) -> str:
    """A share as a percentage with one decimal: ``73.1 %``; ``<0.1 %`` where that would say nothing."""
    if 0 < share < 5e-4:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if 0 < abs(share) < 0.9995 else f"{100 * share:.0f} %"


def rate_in_words(rate: float, unit: str = "samples") -> tuple[str, str]:
    """A throughput as number and unit: ``("1.22", "M samples/s")``; ``unit`` is a plural noun."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if rate >= 0.9995 * factor:
            return _three_digits(rate / factor), f"{prefix} {unit}/s"
    return _three_digits(rate), f"{unit}/s"


def _three_digits(value: float) -> str:
    """Three significant digits, zeros at the end too."""
    return f"{value:#.3g}".rstrip(".") if value < 999.5 else f"{value:.0f}"


def usd(price: float) -> str:
    """A price: ``$0.0312``, with three significant digits and whole dollars from a hundred on."""
    return f"${price:,.0f}" if price >= 99.95 else f"${price:#.3g}"  # `#` keeps zeros at the end


def hourly(price_usd: float, rank_name: str) -> str:
    """A price of a rank for an hour: ``$2.10 per GPU-hour``."""
    return f"{usd(price_usd)} per {singular(rank_name)}-hour"


def singular(rank_name: str) -> str:
    """One of the devices that hold ranks: ``GPU`` of ``GPUs``."""
    return rank_name.removesuffix("s")


def memory_named(words: str, rank_name: str) -> str:
    """Words on a job with the memory of its ranks by its name: without GPUs it is the host's, and the only one."""
    return words if rank_name == "GPUs" else words.replace("HBM, PCIe and DDR", "DDR").replace("HBM", "DDR")


def counted(number: int, plural: str) -> str:
    """A number of things: ``1 socket``, ``1,024 GPUs``, ``3 cases``."""
    return f"{number:,} {singular(plural) if number == 1 else plural}"


def rounded_ns(value_ps: int) -> int:
    """Picoseconds as nanoseconds, rounded to the nearest."""
    return (value_ps + PS_PER_NS // 2) // PS_PER_NS
