"""Verification and the report of a run; the certificate that both start from is in `reldp.runs`.

>>> from reldp.reporting import Certificate, verify
"""

from reldp.reporting.verification import Verification, verify
from reldp.runs.certificate import Certificate

__all__ = ["Certificate", "Verification", "verify"]
