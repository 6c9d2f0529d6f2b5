"""The shapes every room shares. All frozen: a fact does not change once read."""

from __future__ import annotations

from dataclasses import dataclass, field

from zombiescope.core.harm import NOTHING_KNOWN, Harm
from zombiescope.core.story import Story

SLACK = 1.0  # seconds: two things nearer than this began together; most probes look once a second
# From weakest to strongest, which is how rival causes are weighed. Order alone is coincidence.
GROUNDS = ("order", "place", "dose", "mechanism", "experiment")
STATES = ("found", "clear", "blind", "broken")
RISKS = ("safe", "disruptive")
ANSWERS = ("supported", "refuted", "cannot tell")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time, in unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def holds(self, at: float) -> bool:
        return self.start <= at <= self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One fact, as the kernel gave it."""

    what: str  # "cgroups_known": Prometheus spelling, base units; a counter ends in _total
    subject: str  # "kind:name" or "node": cpu:3, unit:ecs.service, nic:eth0, controller:memory
    value: float
    at: float  # unix seconds
    source: str  # paste it and look yourself: a path, or "$ command"
    text: str = ""  # the kernel's own words


@dataclass(frozen=True, slots=True, kw_only=True)
class Blind:
    """Something that could not be seen this time, though the rest was; of one subject only, if one is named."""

    what: str
    source: str
    why: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim about one subject over one span. It cannot be built without evidence."""

    subject: str
    span: Span
    says: str
    evidence: tuple[Reading, ...]
    sign: str = ""  # stamped with the file's name as it leaves the room
    symptom: bool = False  # never a root cause, only ever an effect of one: a starved thread, a job that died
    next_command: str = ""  # what shows more of it, to type next
    culprit: str = ""  # who does it, where the subject is a core or the node: process:sh[7], or a cgroup
    harm: Harm = field(default=NOTHING_KNOWN, compare=False)  # of it alone; with what follows from it: Case.costs

    def __post_init__(self) -> None:
        if not self.evidence:
            raise ValueError(f"a finding needs evidence: {self.says}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One reason to believe that a cause led to an effect. It cannot be built without evidence."""

    kind: str  # one of GROUNDS
    says: str
    evidence: tuple[Reading, ...]

    def __post_init__(self) -> None:
        if self.kind not in GROUNDS:
            raise ValueError(f"no such kind of ground: {self.kind}")
        if not self.evidence:
            raise ValueError(f"a ground needs evidence: {self.says}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A cause, an effect, and why we join them."""

    law: str
    cause: Finding
    effect: Finding
    grounds: tuple[Ground, ...]

    @property
    def strength(self) -> tuple[int, ...]:
        """For weighing rivals: the strongest kind decides, then the next one, then how many."""
        return tuple(sorted((GROUNDS.index(ground.kind) for ground in self.grounds), reverse=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one sign came to. Blind is never the same as clear."""

    sign: str
    state: str  # one of STATES: found, clear, blind (could not look), broken (our own fault)
    says: str = ""
    evidence: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A law that could have explained a finding, and why it did not."""

    law: str
    why_not: str
    blind: bool = False  # whether the cause was there could not be seen
    there: bool = False  # it was found at the right time, and nothing ties it to the finding, or speaks against it


@dataclass(frozen=True, slots=True, kw_only=True)
class Unexplained:
    """A finding that some law could explain but none does: the next thing to look at."""

    finding: Finding
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How consistently one law held: counted, never scored."""

    law: str
    effects: int
    explained: int  # effects that this law links to a cause
    causes: int
    led: int  # causes that this law links to an effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A hypothesis people bring along, tested on this recording."""

    state: str  # one of ANSWERS
    says: str  # with the figures
    evidence: tuple[Reading, ...] = ()
    question: str = ""  # stamped with the file's name as it leaves the room

    def __post_init__(self) -> None:
        if self.state not in ANSWERS:
            raise ValueError(f"no such answer: {self.state}")
        if self.state != "cannot tell" and not self.evidence:
            raise ValueError(f"an answer needs evidence: {self.says}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One act of a cure: a command that a person could paste, and what it is for. Without a command it is advice."""

    says: str
    argv: tuple[str, ...] = ()
    stdin: str = ""  # what the command reads
    undo: tuple[str, ...] = ()  # takes back what is not in a file; what is, is put back as it was
    unit: str = ""  # the unit that it stops or changes: its files and whether it runs are kept, and put back by undo
    keeps: tuple[str, ...] = ()  # other files that it changes
    risk: str = ""  # where it is not the plan's: the last rungs of a ladder


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A cure for one finding. `proof` names the signs that must come back clear."""

    cures: Finding
    steps: tuple[Step, ...]
    risk: str  # one of RISKS
    proof: tuple[str, ...]
    name: str = ""  # stamped with the file's name as it leaves the room
    aftermath: bool = False  # stamped too: it clears up what stays when the cause is gone
    last_resort: bool = False  # stamped too: offered after everything else

    def __post_init__(self) -> None:
        for risk in (self.risk, *(step.risk or self.risk for step in self.steps)):
            if risk not in RISKS:
                raise ValueError(f"no such risk: {risk}")

    @property
    def advice(self) -> bool:
        """Whether there is nothing in it that we could do ourselves."""
        return not any(step.argv for step in self.steps)

    def risk_of(self, step: Step) -> str:
        return step.risk or self.risk


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold after a fix."""

    name: str
    state: str  # held, failed or blind
    says: str
    before: Reading | None = None
    after: Reading | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that is claimed of one node over one span."""

    node: str
    kernel: str
    span: Span
    findings: tuple[Finding, ...] = ()
    links: tuple[Link, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    tallies: tuple[Tally, ...] = ()
    answers: tuple[Answer, ...] = ()
    plans: tuple[Plan, ...] = ()
    settings: tuple[str, ...] = ()  # thresholds that were not ours: "saturated_core.FULL=0.8"
    recording: str = ""  # the folder it was read from, as the user named it; empty for this machine, now
    costs: tuple[tuple[Finding, Harm], ...] = ()  # of each first cause with all that follows; the most harmful first
    noted: tuple[Finding, ...] = ()  # they harm nothing: not accused
    unsure: tuple[Finding, ...] = ()  # whether they harm anybody could not be measured: not accused, and not clear
    past: tuple[Finding, ...] = ()  # they ended before the look began
    own: tuple[Finding, ...] = ()  # our own work, or what happened to us: no findings
    unchecked: tuple[tuple[str, str], ...] = ()  # an effect, and a known cause that could not be looked for: signs

    _story: list[Story] = field(default_factory=list, init=False, repr=False, compare=False)  # worked out once

    @property
    def story(self) -> Story:
        if not self._story:
            self._story.append(Story(self.findings, self.links))
        return self._story[0]

    def causes_of(self, finding: Finding) -> list[Link]:
        """Every link into a finding: first the one that the chain follows, then the others, the strongest first."""
        return self.story.causes_of(finding)

    def rivals_of(self, finding: Finding) -> list[Link]:
        """Links of other causes than the one that the chain follows, and than those that led to it."""
        return self.story.rivals_of(finding)

    def unchecked_for(self, *findings: Finding) -> list[str]:
        """Signs of their known causes that could not look: these may be there."""
        signs = {finding.sign for finding in findings}
        return sorted({cause for effect, cause in self.unchecked if effect in signs})

    @property
    def chains(self) -> list[tuple[Finding, ...]]:
        """For every last effect, its causes walked back to the first; the longest chain first.

        A finding that nothing joins is a chain of its own; a rival that lost is named by `rivals_of`.
        """
        return self.story.chains()

    @property
    def root_causes(self) -> list[Finding]:
        """Whom we accuse: the first of each chain, and what stands alone though every cause we know was looked for.

        A symptom is nobody's fault: if nothing explains it, it is unexplained. So is whatever may have a cause that
        could not be seen, and what harms nobody, or is over. The most harmful comes first.
        """
        doubtful = {item.finding for item in self.unexplained if any(it.blind for it in item.candidates)}
        firsts = [chain[0] for chain in self.chains if len(chain) > 1 or chain[0] not in doubtful]
        ranks = {finding: place for place, (finding, _) in enumerate(self.costs)}
        roots = dict.fromkeys(it for it in firsts if not it.symptom and it not in self.set_aside)
        return sorted(roots, key=lambda it: ranks.get(it, len(ranks)))

    @property
    def set_aside(self) -> frozenset[Finding]:
        """What accuses nobody and decides nothing."""
        return frozenset((*self.noted, *self.unsure, *self.past))

    @property
    def problems(self) -> list[Finding]:
        """What decides the verdict: everything found that harms somebody now."""
        aside = self.set_aside
        return [finding for finding in self.findings if finding not in aside]

    @property
    def riddles(self) -> list[Unexplained]:
        """Problems without a cause, beside the root causes."""
        aside = {*self.set_aside, *self.root_causes}
        return [it for it in self.unexplained if it.finding not in aside]

    def cost_of(self, finding: Finding) -> Harm:
        """What a finding costs with all that follows from it, or else alone."""
        return next((harm for it, harm in self.costs if it == finding), finding.harm)
