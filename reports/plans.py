"""Page and tables of a plan, by the kind of plan that was studied."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from reports import strategy_report, strategy_tables
from reports.convnet import plan_report as blocks_report
from reports.convnet import plan_tables as blocks_tables
from reports.dlrm import plan_report, plan_tables
from reports.text_table import TextTable
from reports.transformer import plan_report as division_report
from reports.transformer import plan_tables as division_tables
from scenarios.convnet.plan_study import ConvnetPlanStudy
from scenarios.dlrm.plan_study import DlrmPlanStudy
from scenarios.strategies import StrategyStudy
from scenarios.transformer.plan_study import TransformerPlanStudy


@singledispatch
def plan_page(study: object, version: str) -> str:
    """The page of a plan, self-contained and offline.

    Args:
        version: version of this tool.

    Raises:
        TypeError: no page is registered for plans of this type.
    """
    raise TypeError(f"no page of a {type(study).__name__} ({version})")


@plan_page.register
def _(study: DlrmPlanStudy, version: str) -> str:
    return plan_report.render_plan(study, version)


@plan_page.register
def _(study: TransformerPlanStudy, version: str) -> str:
    return division_report.render_plan(study, version)


@plan_page.register
def _(study: StrategyStudy, version: str) -> str:
    return strategy_report.render_strategies(study, version)


@plan_page.register
def _(study: ConvnetPlanStudy, version: str) -> str:
    return blocks_report.render_plan(study, version)


@singledispatch
def tables_of_plan(study: object) -> Iterable[TextTable | str]:
    """Tables that the command line prints of a plan.

    Raises:
        TypeError: no tables are registered for plans of this type.
    """
    raise TypeError(f"no tables of a {type(study).__name__}")


@tables_of_plan.register
def _(study: DlrmPlanStudy) -> Iterable[TextTable | str]:
    return plan_tables.plan_tables(study)


@tables_of_plan.register
def _(study: TransformerPlanStudy) -> Iterable[TextTable | str]:
    return division_tables.plan_tables(study)


@tables_of_plan.register
def _(study: StrategyStudy) -> Iterable[TextTable | str]:
    return strategy_tables.strategy_tables(study)


@tables_of_plan.register
def _(study: ConvnetPlanStudy) -> Iterable[TextTable | str]:
    return blocks_tables.plan_tables(study)
