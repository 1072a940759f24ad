"""How far rounding moves a row: by forward width, batch, dtype and what keys and values are kept in."""
