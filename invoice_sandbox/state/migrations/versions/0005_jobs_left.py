"""Jobs that a worker leaves behind: one that it has taken and did not end, one for a replica that
is gone."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"

_SCHEMA = """
SET LOCAL search_path = invoice_sandbox;

-- As before, but a job that was taken counts for 30 s: its end may not have been written, though
-- the server that took it lives.
CREATE OR REPLACE FUNCTION write_missing_jobs(by_then double precision) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  UPDATE workspaces SET due = due
  WHERE owner IS NULL AND due <= by_then AND NOT EXISTS (SELECT FROM procrastinate_jobs j
    WHERE queueing_lock = 'due ' || workspace AND (status = 'todo' OR status = 'doing' AND EXISTS (
      SELECT FROM procrastinate_events e
      WHERE e.job_id = j.id AND e.at > clock_timestamp() - interval '30 seconds')));
END $$;

-- As before, and without jobs for replicas that are gone: the engine gives back a job that such a
-- one had taken, and nobody else takes it.
CREATE OR REPLACE FUNCTION look_after(own bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  DELETE FROM replicas WHERE replica IN (SELECT replica FROM replicas
    WHERE until < clock_timestamp() AND replica <> own FOR UPDATE SKIP LOCKED);
  DELETE FROM procrastinate_jobs WHERE status = 'todo' AND queue_name LIKE 'replica %'
    AND NOT EXISTS (SELECT FROM replicas WHERE queue_name = 'replica ' || replica);
  PERFORM write_missing_jobs(epoch());
END $$;
"""


def upgrade() -> None:
    """Replace two functions."""
    op.execute(_SCHEMA)
