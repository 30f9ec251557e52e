"""What is due in a family that no replica runs is a job of Procrastinate."""

from __future__ import annotations

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0004"
down_revision = "0003"

# Jobs can be made again from the table of workspaces, so a schema of the engine that is there
# already, be it of another version or from before a backup was restored, is replaced.
_ENGINE = f"""
DROP SCHEMA IF EXISTS invoice_sandbox_jobs CASCADE;
CREATE SCHEMA invoice_sandbox_jobs;
SET LOCAL search_path = invoice_sandbox_jobs;
{SchemaManager.get_schema()}
GRANT USAGE ON SCHEMA invoice_sandbox_jobs TO invoice_sandbox_server;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA invoice_sandbox_jobs
TO invoice_sandbox_server;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA invoice_sandbox_jobs TO invoice_sandbox_server;
"""

_SCHEMA = """
SET LOCAL search_path = invoice_sandbox;

-- The only place that writes jobs: "task" for each of these families, for the servers that take
-- jobs from the queue, at instants in seconds since 1970. They replace jobs that wait for the same.
-- A job that a server has taken already stays: it may have been too early.
CREATE FUNCTION write_jobs(task text, queue text, families text[], times double precision[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  DELETE FROM procrastinate_jobs WHERE status = 'todo'
    AND queueing_lock IN (SELECT queue || ' ' || family FROM unnest(families) AS family);
  PERFORM procrastinate_defer_jobs_v1(array_agg(ROW(
    queue, task, (task = 'hand_over')::integer, NULL, queue || ' ' || family,
    jsonb_build_object('family', family), to_timestamp(at)
  )::procrastinate_job_to_defer_v1)) FROM unnest(families, times) AS one (family, at);
END $$;

-- As soon as no replica runs a family, in the same transaction, there is a job for what is due.
CREATE FUNCTION write_due_jobs() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
DECLARE families text[]; times double precision[]; BEGIN
  SELECT array_agg(workspace), array_agg(due) INTO families, times
    FROM changed WHERE owner IS NULL AND due IS NOT NULL;
  IF families IS NOT NULL THEN PERFORM write_jobs('take_up', 'due', families, times); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER write_due_jobs AFTER UPDATE ON workspaces REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION write_due_jobs();

-- Writes the jobs that should be there for what is due by then, and are not.
CREATE FUNCTION write_missing_jobs(by_then double precision) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  UPDATE workspaces SET due = due
  WHERE owner IS NULL AND due <= by_then AND NOT EXISTS (SELECT FROM procrastinate_jobs
    WHERE queueing_lock = 'due ' || workspace AND status IN ('todo', 'doing'));
END $$;

-- A replica has ended without a word. Only it knew when something is due in what it ran, so
-- whatever has scheduled steps is due now.
CREATE FUNCTION release_families_of(gone bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE workspaces f SET owner = NULL, wanted_by = NULL,
    due = CASE WHEN EXISTS (SELECT FROM workspaces m JOIN steps s USING (workspace)
      WHERE m.family = f.workspace AND s.state = '') THEN epoch() END
  WHERE f.owner = gone AND f.workspace = f.family;
END $$;

-- As before, without a hint. Nobody takes the jobs of that replica any more.
CREATE OR REPLACE FUNCTION release_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = invoice_sandbox, invoice_sandbox_jobs, pg_temp AS $$ BEGIN
  PERFORM release_families_of(OLD.replica);
  DELETE FROM procrastinate_jobs
  WHERE queue_name = 'replica ' || OLD.replica AND status = 'todo';
  RETURN NULL;
END $$;

-- As before; and families whose replica is not there, as after a backup was restored, are released,
-- and missing jobs are written. Meanwhile no replica is added or ends.
CREATE OR REPLACE FUNCTION register(own_address text, seconds double precision, used text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
DECLARE present text; own bigint; BEGIN
  SELECT version_num INTO present FROM alembic_version;
  IF present <> used THEN
    RAISE EXCEPTION 'its schema is %, this server uses %: start a server of the newer version',
      present, used;
  END IF;
  LOCK TABLE replicas IN SHARE ROW EXCLUSIVE MODE;
  PERFORM release_families_of(gone) FROM (SELECT DISTINCT owner FROM workspaces
    WHERE owner NOT IN (SELECT replica FROM replicas)) AS ended (gone);
  PERFORM write_missing_jobs('infinity');
  INSERT INTO replicas (address, until)
    VALUES (own_address, clock_timestamp() + make_interval(secs => seconds))
    RETURNING replica INTO own;
  RETURN own;
END $$;

-- As before, but the other replica gets a job that asks it for the family.
CREATE OR REPLACE FUNCTION claim(own bigint, digests text[], name text, is_wanted boolean)
RETURNS TABLE (kin text, runs bigint, at_address text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
DECLARE present bigint; BEGIN
  SELECT w.family INTO kin FROM credentials c JOIN workspaces w USING (workspace)
    WHERE c.state = '' AND c.digest = ANY (digests) LIMIT 1;
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

-- The job of a family: the replica runs it from now on, if no replica does and something is due.
DROP FUNCTION take_due(bigint, integer);
CREATE FUNCTION take_due(own bigint, kin text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  PERFORM must_be_registered(own);
  UPDATE workspaces SET owner = own, wanted_by = NULL
  WHERE workspace = kin AND owner IS NULL AND due <= epoch();
  RETURN FOUND;
END $$;

-- The job of every second: ends the other replicas whose lease is over, and writes missing jobs.
CREATE FUNCTION look_after(own bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  DELETE FROM replicas WHERE replica IN (SELECT replica FROM replicas
    WHERE until < clock_timestamp() AND replica <> own FOR UPDATE SKIP LOCKED);
  PERFORM write_missing_jobs(epoch());
END $$;

-- As before; a family that another replica has asked for is left to it for a second.
CREATE OR REPLACE FUNCTION release(own bigint, names text[], times double precision[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE workspaces w SET owner = NULL,
    due = greatest(given.at, epoch() + (w.wanted_by IS NOT NULL)::integer)
  FROM unnest(names, times) AS given (name, at)
  WHERE w.workspace = given.name AND w.owner = own AND given.at IS NOT NULL;
  UPDATE workspaces w SET owner = NULL, due = NULL
  WHERE w.workspace = ANY (names) AND w.owner = own;
END $$;

-- As before, without the families that others want, for which there are jobs.
DROP FUNCTION beat(bigint, double precision);
CREATE FUNCTION beat(own bigint, seconds double precision) RETURNS TABLE (others bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE replicas SET until = clock_timestamp() + make_interval(secs => seconds)
  WHERE replica = own;
  IF NOT FOUND THEN RETURN; END IF;
  others := (SELECT count(*) FROM replicas WHERE replica <> own AND until > clock_timestamp());
  RETURN NEXT;
END $$;

SELECT write_missing_jobs('infinity');

REVOKE ALL ON FUNCTION write_jobs(text, text, text[], double precision[]), write_due_jobs(),
  release_families_of(bigint),
  write_missing_jobs(double precision), take_due(bigint, text), look_after(bigint),
  beat(bigint, double precision) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION take_due(bigint, text), look_after(bigint),
  beat(bigint, double precision) TO invoice_sandbox_server;
"""


def upgrade() -> None:
    """Add the engine, and let it do what servers asked for by themselves."""
    op.execute(_ENGINE)
    op.execute(_SCHEMA)
