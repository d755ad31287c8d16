"""What a run tells the world: certificate, model card, verification, report.

>>> from reldp.reporting import Certificate, verify
"""

from reldp.reporting.certificate import Certificate
from reldp.reporting.verification import Verification, verify

__all__ = ["Certificate", "Verification", "verify"]
