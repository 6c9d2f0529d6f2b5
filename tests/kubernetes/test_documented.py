"""How the commands of a page are found: those of code blocks, whole, without their remarks."""

from __future__ import annotations

from tests.kubernetes.node.documented import PAGE, commands


def test_commands_of_a_page() -> None:
    page = """Text with `kubectl get pods`.

    kubectl get nodes      # all of them
    kubectl patch node N -p '{"a":"b"}' # quoted
    $ not this
    helm list

        kubectl deeper
"""
    assert commands(page) == ["kubectl get nodes", """kubectl patch node N -p '{"a":"b"}'""", "helm list"]


def test_the_page_has_all_that_a_user_needs() -> None:
    """Install, look, alert, remove: a fresh user's way."""
    found = commands(PAGE.read_text())
    for beginning in (
        "make image",
        "helm install",
        "kubectl zombiescope nodes",
        "kubectl get events",
        "helm uninstall",
    ):
        assert [it for it in found if it.startswith(beginning)], beginning
    assert len(found) == len(set(found))
