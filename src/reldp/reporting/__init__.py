"""What a run tells the world: certificate, model card, verification, report.

>>> from reldp.reporting import Certificate, verify
"""

from reldp.reporting.verification import Verification, verify
from reldp.runs.certificate import Certificate

__all__ = ["Certificate", "Verification", "verify"]
