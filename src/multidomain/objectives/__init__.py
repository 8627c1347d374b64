"""What D and F_s minimise, and what the theory says about it."""

from multidomain.objectives.domain import L2, NLL, OBJECTIVES, DomainObjective

__all__ = ["L2", "NLL", "OBJECTIVES", "DomainObjective"]
