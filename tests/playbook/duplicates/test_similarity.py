"""Words, numbers, names and order that keep two texts apart."""

import pytest

from ace.playbook.duplicates import similarity
from ace.playbook.duplicates.find import same_lesson
from ace.playbook.duplicates.similarity import marks, text_difference


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Retry after 10 seconds.", "Retry after 10 minutes."),
        ("Always ask before you pay.", "Never ask before you pay."),
        ("Use Plotly for the charts of the report.", "Use matplotlib for the charts of the report."),
        ("Call `a.get` and store it.", "Call `a.put` and store it."),
        ("The seller pays the buyer back.", "The buyer pays the seller back."),
        ("Sort the list in ascending order.", "Sort the list in descending order."),
        ("Reports run from 1 April.", "Reports run from 1 October."),
        ("Validate the input, then save the record.", "Save the record, then validate the input."),
        ("Call get_user and not get_users.", "Call get_users and not get_user."),
        ("If A fails use B, if B fails use C.", "If B fails use A, if A fails use C."),
        ("Call refund(order_id) with the order's id.", "Call refund(order_id) with the customer's id."),
        ("The user must confirm.", "The user may confirm."),
        ("Notify Ana and Bo.", "Notify Ana or Bo."),
        ("Cancel it when all decline.", "Cancel it when any decline."),
        ("Keep scores >= 10.", "Keep scores <= 10."),
        ("日本の注文を返金する。", "日本の注文を取り消す。"),
        ("Заказ отменить.", "Заказ вернуть."),
        ("Die Bestellung sofort erstatten.", "Die Bestellung nicht sofort erstatten."),
        ("Reembolsar el pedido sin preguntar.", "Reembolsar el pedido, preguntar."),
    ],
)
def test_what_vectors_do_not_see_keeps_two_apart(a, b):
    assert text_difference(a, b)
    assert text_difference(b, a)
    assert not same_lesson(a, b, 1.0, 0.5)


def test_what_says_the_same_is_the_same():
    assert same_lesson("Check the balance before paying.", "Before paying, check the balance.", 0.99, 0.9)
    assert same_lesson("Always check the balance.", "Check the balance!", 0.95, 0.9)
    assert marks("Don't call `a_b` 3 times").negations == 1


def test_one_word_in_the_place_of_another_changes_a_lesson_and_many_are_another_lesson():
    a = "Find the newest order of the customer and refund the whole amount to the card"
    assert similarity._replaced(a, a.replace("newest", "oldest")).startswith("other words: newest / oldest")
    assert similarity._replaced(a, a) == ""
    assert similarity._replaced(a, f"{a} quickly") == ""  # nothing is lost
    assert similarity._replaced(a, "Cancel the meeting of Monday and mail everybody about that") == ""
