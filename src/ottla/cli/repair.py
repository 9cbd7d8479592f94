"""`ottla repair`: set damage aside."""

import ottla
from ottla.cli.exits import say
from ottla.cli.options import DEFAULT_URL, AsJson, UrlArgument, Yes, as_url, confirmed
from ottla.cli.output import counted
from ottla.cli.verify import show_damage

EXAMPLES = ("ottla repair file:///var/lib/ottla", "ottla repair ./data --yes --json")


def repair(url: UrlArgument = DEFAULT_URL, *, yes: Yes = False, as_json: AsJson = False) -> None:
    """Set damaged pieces of a log aside, so that all that is whole can be read again. Nothing is deleted."""
    damage = ottla.verify(as_url(url))
    if not damage:
        show_damage([], as_json=as_json)
        say("every stored message is whole: there is nothing to repair")
        return
    if not yes:
        show_damage(damage, as_json=False)
    confirmed(
        f"Set {counted(len(damage), 'damaged piece')} aside? What is lost in it can then no longer be read.", yes=yes
    )
    show_damage(ottla.repair(as_url(url)), as_json=as_json)
