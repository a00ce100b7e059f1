"""Who only pretends to deliver leaves room for those that have proven something."""

from service.web.taking import TRUSTED, Share

FORGER, MONITOR = "192.0.2.1", "198.51.100.7"


def taken(share: Share, address: str, source: str = "graf", *, size: int = 10, most: int = 1000) -> int:
    """Take as often as is given, and return how much that was."""
    got = 0
    while got < most and share.take(size, share.holder(address, source)):
        got += size
    return got


def test_s14_a_flood_from_one_address_leaves_room_for_every_other() -> None:
    share = Share(800)

    assert taken(share, FORGER) == 100
    assert taken(share, MONITOR) == 100


def test_s14_a_flood_from_many_addresses_leaves_room_for_who_has_signed_lately_and_for_tokens() -> None:
    share = Share(800)
    share.trust(MONITOR, "graf")

    strangers = sum(taken(share, f"192.0.2.{number}") for number in range(50))
    known = taken(share, MONITOR)
    with_token = share.take(200, None)

    assert (strangers, known, with_token) == (400, 200, True)


def test_s14_a_monitor_behind_the_address_of_a_flood_has_room_of_its_own() -> None:
    share = Share(800)
    share.trust(FORGER, "graf")

    assert taken(share, FORGER, "guessed") == 100
    assert taken(share, FORGER, "graf") == 200


def test_s14_what_is_given_back_is_free_again_and_a_proof_of_long_ago_counts_no_more() -> None:
    moment = [0.0]
    share = Share(800, now=lambda: moment[0])
    share.trust(MONITOR, "graf")
    holder = share.holder(MONITOR, "graf")
    assert share.take(200, holder)

    moment[0] = TRUSTED
    share.give_back(200, holder)

    assert taken(share, MONITOR) == 100
