"""Questions to one thread: what is asked while it answers is answered next, only the newest, and nothing twice."""

from __future__ import annotations

import queue
import threading

from gputop.agent.newest_wins import NewestWins

DEADLINE_S = 60.0


def test_one_thread_answers_the_open_question_and_then_the_newest() -> None:
    begun: queue.Queue[int] = queue.Queue()
    answers: queue.Queue[int] = queue.Queue()
    go = threading.Event()

    def answer(question: int) -> int:
        begun.put(question)
        go.wait(DEADLINE_S)
        return -question

    questions = NewestWins("test", answer, answers.put)
    questions.ask(1)
    assert begun.get(timeout=DEADLINE_S) == 1
    for question in (2, 3):
        questions.ask(question)
    go.set()
    assert [answers.get(timeout=DEADLINE_S) for _ in range(2)] == [-1, -3]
    assert begun.get(timeout=DEADLINE_S) == 3
    questions.ask(4)
    assert answers.get(timeout=DEADLINE_S) == -4, "a thread that has ended is replaced"


def test_a_question_that_is_being_answered_is_not_answered_twice() -> None:
    begun: queue.Queue[int] = queue.Queue()
    answers: queue.Queue[int] = queue.Queue()
    go = threading.Event()

    def answer(question: int) -> int:
        begun.put(question)
        go.wait(DEADLINE_S)
        return -question

    questions = NewestWins("test", answer, answers.put)
    questions.ask(1)
    assert begun.get(timeout=DEADLINE_S) == 1
    questions.ask(1)
    go.set()
    assert answers.get(timeout=DEADLINE_S) == -1
    questions.ask(2)
    assert answers.get(timeout=DEADLINE_S) == -2
