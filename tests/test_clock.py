import time

from ottla.clock import Clock, ManualClock, SystemClock


def test_the_system_clock_tells_unix_milliseconds() -> None:
    before = int(time.time() * 1000) - 1
    assert before <= SystemClock().now_ms() <= int(time.time() * 1000) + 1


def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock: Clock = ManualClock(1000)
    assert (clock.now_ms(), clock.now_ms()) == (1000, 1000)


def test_a_manual_clock_moves_both_ways() -> None:
    clock = ManualClock(1000)
    clock.advance(500)
    assert clock.now_ms() == 1500
    clock.advance(-700)
    assert clock.now_ms() == 800
