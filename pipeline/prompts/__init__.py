"""An item under a condition, as the token ids that one model sees.

In: items, variants, and a tokenizer with its chat template. Out: messages, rendered text, segments
around the date, spliced ids, and the proof that the date is there and that nothing else moves with
it.
"""

from pipeline.prompts.cuts import CONTEXT as CONTEXT
from pipeline.prompts.floor import Prefixes as Prefixes
from pipeline.prompts.render import ItemPrompt as ItemPrompt, PromptBuilder as PromptBuilder
from pipeline.prompts.splice import Spliced as Spliced, Splicer as Splicer
from pipeline.prompts.treatment import (
    check_bos as check_bos,
    check_only_date as check_only_date,
    check_treatment as check_treatment,
    own_dates as own_dates,
)
