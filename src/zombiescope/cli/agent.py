"""The resident: records, examines the last minutes again and again, and reports what begins, changes and ends.

Serves /metrics for Prometheus, profiles and the time-travel page; writes each event as one line to stdout and to
DIR/agent/events.jsonl. Reads only, unless --remediate is given. SIGHUP reads its file anew, SIGTERM ends it. With
--check it only says what it could not see.
"""

from __future__ import annotations

import argparse
import os

from zombiescope.cli._agent_keys import add_keys, settings_of
from zombiescope.cli._arguments import FILE, FOLDER, add_repeatable, complete
from zombiescope.cli._looking import add_exit_style, host_of, needs_linux

EXAMPLES = """examples:
  zombiescope agent                                            record into /var/lib/zombiescope, serve 127.0.0.1:9479
  zombiescope agent --config /etc/zombiescope/agent.toml       every option is also a key of this file
  zombiescope agent --dir ./rec --listen '' --textfile /var/lib/prometheus/node-exporter
  zombiescope agent --metrics-listen 0.0.0.0:9480              /metrics for everybody, the rest for this machine
  zombiescope agent --webhook http://127.0.0.1:8080/events --alertmanager http://alertmanager:9093
  zombiescope agent --pyroscope http://pyroscope:4040          push profiles there
  zombiescope agent --kubernetes --kubeconfig /etc/zombiescope/kubeconfig    conditions and events of this node
  zombiescope agent --ask --exit-style nagios                  what the running agent says, in one line
  zombiescope agent --get '/debug/pprof/profile?seconds=60' > cpu.pb.gz    any of its pages; / lists them
  zombiescope agent --check                                    which capabilities are missing, and what is blind without

exit codes: 0 stopped by a signal; 2 usage; --ask: as --exit-style says; --ask-reboot: 0 if only a reboot would help,
else 1; --get: 3 if it does not answer; --check: 3 if something is blind
--ask, --ask-reboot and --get reach the agent by its socket in --dir: as root, or as the agent's own user
"""


def add_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", default="", metavar="FILE", help="read these settings; flags come before them [none]"
    )
    add_keys(parser)
    add_repeatable(parser, "--set", "MEMBER.CONST=VALUE", "override a threshold or pace, as in diagnose; repeatable")
    parser.add_argument("--ask", action="store_true", help="ask the running agent: one line, and an exit code")
    says = "ask it whether only a reboot would help: exit code 0 if so, else 1; for kured"
    parser.add_argument("--ask-reboot", action="store_true", help=says)
    says = "print a page of the running agent, such as /findings; / lists them"
    parser.add_argument("--get", default="", metavar="PATH", help=says)
    add_exit_style(parser, "ci")
    parser.add_argument("--check", action="store_true", help="say what would be blind here, and end")
    tokens = ("token_file", "webhook_token_file", "push_token_file", "ship_token_file")
    complete(parser, **dict.fromkeys(("config", *tokens, "kubeconfig"), FILE))
    complete(parser, tls_cert_file=FILE, tls_key_file=FILE, tls_client_ca_file=FILE)
    complete(parser, post_ca_file=FILE, post_cert_file=FILE, post_key_file=FILE)
    complete(parser, dir=FOLDER, host=FOLDER, textfile=FOLDER, ledger=FOLDER)


def run(args: argparse.Namespace) -> int:
    file = os.path.abspath(args.config) if args.config else ""
    flags, chosen = dict(vars(args)), tuple(args.set)
    settings = settings_of(file, flags, chosen)
    if args.ask or args.ask_reboot or args.get:
        from zombiescope.cli._agent_ask import ask, ask_reboot, get

        if args.get:
            return get(settings, args.get)
        return ask_reboot(settings) if args.ask_reboot else ask(settings, args.exit_style)
    if args.check:
        from zombiescope.cli._agent_check import report

        return report(host_of(args))
    needs_linux()
    from zombiescope.agent.resident import Resident

    os.umask(0o077)
    return Resident(settings, lambda: settings_of(file, flags, chosen)).run()
