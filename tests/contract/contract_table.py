"""The contract as a table: transcripts, and what must come of them. Half of them are failures, half are none."""

from contract_failures import FAILING
from contract_successes import SUCCEEDING

TABLE = [*FAILING, *SUCCEEDING]
NAMES = [case.name for case in TABLE]
