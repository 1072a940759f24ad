"""How an exact number is written for people: the decimal where it ends soon, else fraction ≈ decimal."""

from fractions import Fraction

MISSING = "–"


def decimal(value: Fraction, places: int = 8) -> str | None:
    """The exact decimal if it ends within so many places, else None."""
    scaled = value * 10**places
    if scaled.denominator != 1:
        return None
    sign, digits = "-" if scaled < 0 else "", str(abs(scaled.numerator)).zfill(places + 1)
    whole, part = digits[: len(digits) - places], digits[len(digits) - places :].rstrip("0")
    return f"{sign}{whole}.{part}" if part else f"{sign}{whole}"


def show(value: Fraction | None) -> str:
    """One cell of a table: 0.6, or 8/105 ≈0.0762, or ≈0.3142 where the fraction is long."""
    if value is None:
        return MISSING
    # No space after ≈, so that a narrow column breaks before it.
    return decimal(value) or (f"{value} ≈{_near(value, 3)}" if len(str(value)) <= 7 else f"≈{_near(value, 4)}")


def equals(name: str, value: Fraction) -> str:
    """The same in a sentence: Z = 0.2, or Z = 8/105 ≈0.0762, or Z ≈0.3142."""
    text = show(value)
    return f"{name} {text}" if text.startswith("≈") else f"{name} = {text}"


def short(value: Fraction) -> str:
    """A label in a picture: three places, or two significant digits below 0.1."""
    return decimal(value, 3) or _near(value, 3 if value > Fraction(1, 10) else 2)


def exact(value: Fraction) -> str:
    """Nothing lost, and readable as input again: the decimal if it ends within 8 places, else the fraction."""
    return decimal(value) or str(value)


def _near(value: Fraction, digits: int) -> str:
    return f"{float(value):#.{digits}g}".rstrip(".")
