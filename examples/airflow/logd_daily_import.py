"""A DAG of Apache Airflow (2.4 or later, or 3): loads new messages every day, checks the target, merges small files.

Put it into Airflow's folder of DAGs. The worker needs `pip install 'PATH_OF_THE_CHECKOUT[spark]'` and Java 17, or name
another `logd` by LOGD_COMMAND. A retry is harmless: each import continues where the last successful one ended, and of
two at once one ends with status 4, which skips the task instead of failing it.
"""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime, timedelta

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2
    from airflow.operators.bash import BashOperator

LOGD = os.environ.get("LOGD_COMMAND", "logd")
BROKER = os.environ.get("LOGD_BROKER", "127.0.0.1:6667")
TOPICS = os.environ.get("LOGD_TOPICS", "clicks,orders")
TARGET = os.environ.get("LOGD_TARGET", "/var/lib/logd-import/logs")

#: The command lines, each a task; the next begins when the one before has succeeded.
COMMANDS = {
    "load": [LOGD, "import", "--topics", TOPICS, "--to", TARGET, "--broker", BROKER, "--quiet", "--json"],
    "check": [LOGD, "import", "--to", TARGET, "--verify"],
    "compact": [LOGD, "import", "--to", TARGET, "--compact", "date"],
}

with DAG(
    dag_id="logd_daily_import",
    description="Load new messages of logd's topics into files",
    schedule="10 0 * * *",
    start_date=datetime(2011, 11, 11, tzinfo=UTC),
    catchup=False,  # one import loads all that is new, however many days it is
    max_active_runs=1,
    default_args={"retries": 3, "retry_delay": timedelta(minutes=10)},
) as dag:
    before = None
    for task_id, command in COMMANDS.items():
        task = BashOperator(task_id=task_id, bash_command=shlex.join(command), skip_on_exit_code=4)
        if before is not None:
            before >> task
        before = task
