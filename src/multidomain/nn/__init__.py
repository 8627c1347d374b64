"""Networks: extractors (F_s, F_d), heads (C, D), normalisation."""
