"""One function looks a digest up; a job is tried once, and what it left undone gets another one."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"

_SCHEMA = """
SET LOCAL search_path = invoice_sandbox;

-- The credentials with these digests, in whatever workspaces. Nothing else looks for a digest in
-- more than one workspace.
DROP POLICY of_digest ON credentials;
CREATE FUNCTION look_up(digests text[]) RETURNS SETOF credentials
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  SELECT * FROM credentials WHERE state = '' AND digest = ANY (digests)
$$;

-- As before, but it asks "look_up".
CREATE OR REPLACE FUNCTION claim(own bigint, digests text[], name text, is_wanted boolean)
RETURNS TABLE (kin text, runs bigint, at_address text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
DECLARE present bigint; BEGIN
  SELECT w.family INTO kin FROM look_up(digests) JOIN workspaces w USING (workspace) LIMIT 1;
  IF kin IS NULL AND name IS NOT NULL THEN
    SELECT w.family INTO kin FROM workspaces w WHERE w.workspace = name;
  ELSIF kin IS NULL THEN
    SELECT w.family INTO kin FROM workspaces w WHERE w.position = 0;
  END IF;
  LOOP
    SELECT w.owner, r.address INTO present, at_address
      FROM workspaces w LEFT JOIN replicas r
        ON r.replica = w.owner AND (r.until > clock_timestamp() OR r.replica = own)
      WHERE w.workspace = kin;
    IF NOT FOUND THEN RETURN; END IF;
    IF at_address IS NOT NULL THEN
      runs := present;
      IF is_wanted AND present <> own THEN
        UPDATE workspaces w SET wanted_by = own
          WHERE w.workspace = kin AND w.wanted_by IS DISTINCT FROM own;
        IF FOUND THEN
          PERFORM write_jobs('hand_over', 'replica ' || present, ARRAY[kin], ARRAY[epoch()]);
        END IF;
      END IF;
      RETURN NEXT;
      RETURN;
    END IF;
    DELETE FROM replicas r WHERE r.replica = present AND r.until < clock_timestamp();
    PERFORM must_be_registered(own);
    UPDATE workspaces w SET owner = own, wanted_by = NULL
      WHERE w.workspace = kin
        AND (w.owner IS NULL OR NOT EXISTS (SELECT FROM replicas r WHERE r.replica = w.owner));
  END LOOP;
END $$;

-- As "take_due" before: the replica runs a family until its lease ends, if no replica does and
-- something in it is due.
DROP FUNCTION take_due(bigint, text);
CREATE FUNCTION lease_due(own bigint, kin text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  PERFORM must_be_registered(own);
  UPDATE workspaces SET owner = own, wanted_by = NULL
  WHERE workspace = kin AND owner IS NULL AND due <= epoch();
  RETURN FOUND;
END $$;

-- Deletes jobs that a worker has taken and does not end: it is gone, or it has had 30 s. Then it
-- writes the jobs that should be there and are not: for what is due by then, and for what a replica
-- waits for.
CREATE INDEX ON workspaces (owner) WHERE wanted_by IS NOT NULL;
CREATE OR REPLACE FUNCTION write_missing_jobs(by_then double precision) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  DELETE FROM procrastinate_jobs j WHERE status = 'doing' AND (worker_id IS NULL OR NOT EXISTS (
    SELECT FROM procrastinate_events e
    WHERE e.job_id = j.id AND e.at > clock_timestamp() - interval '30 seconds'));
  UPDATE workspaces SET due = due
  WHERE owner IS NULL AND due <= by_then AND NOT EXISTS (SELECT FROM procrastinate_jobs
    WHERE queueing_lock = 'due ' || workspace AND status IN ('todo', 'doing'));
  PERFORM write_jobs(
    'hand_over', 'replica ' || owner, array_agg(workspace::text), array_agg(epoch()))
  FROM workspaces WHERE wanted_by IS NOT NULL AND owner IS NOT NULL
    AND NOT EXISTS (SELECT FROM procrastinate_jobs
      WHERE queueing_lock = 'replica ' || owner || ' ' || workspace
      AND status IN ('todo', 'doing'))
  GROUP BY owner;
END $$;

REVOKE ALL ON FUNCTION look_up(text[]), lease_due(bigint, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION look_up(text[]), lease_due(bigint, text) TO invoice_sandbox_server;
"""


def upgrade() -> None:
    """Replace a policy and four functions."""
    op.execute(_SCHEMA)
