"""Pairs of words that reverse a lesson when one replaces the other."""

from __future__ import annotations

_PAIRS = """
always/never before/after include/exclude allow/deny allow/forbid allow/refuse allow/block enable/disable
with/without ascending/descending increase/decrease add/remove accept/reject accept/decline first/last oldest/newest
earliest/latest above/below over/under more/fewer more/less most/least longer/shorter up/down upper/lower on/off
open/close opens/closes start/end start/stop true/false public/private sender/recipient sender/receiver
import/export read/write manual/automatic manually/automatically required/optional inclusive/exclusive left/right
source/target buy/sell succeed/fail succeeds/fails success/failure safe/unsafe trust/distrust prefer/avoid
prefers/avoids keep/drop keep/delete keep/discard all/none larger/smaller higher/lower high/low early/late
earlier/later minimum/maximum min/max front/back top/bottom inside/outside internal/external online/offline
encrypt/decrypt lock/unlock show/hide visible/hidden synchronous/asynchronous local/remote inbound/outbound
input/output upload/download credit/debit parent/child lend/borrow push/pull lowercase/uppercase wins/loses
first/second client/server buyer/seller can/cannot possible/impossible available/unavailable cheap/expensive
cheaper/dearer approve/reject join/leave mandatory/optional hot/cold warm/cold wet/dry legal/illegal strict/lenient
sequential/parallel serially/parallel eager/lazy plural/singular relative/absolute narrow/broad narrow/widen
once/repeatedly recommend/discourage strictly/loosely stop/continue pause/resume attach/detach mount/unmount
register/unregister follow/unfollow like/unlike
"""
ANTONYMS = frozenset(frozenset(pair.split("/")) for pair in _PAIRS.split())
"""Each a set of two."""
