"""When something is due in a family that no replica runs, and who takes it up."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_SCHEMA = """
SET LOCAL search_path = invoice_sandbox;

-- In the row of a family that no replica runs: when something in it is due, in seconds since 1970.
-- The replica that releases the family writes it. It means nothing while a replica runs the family.
ALTER TABLE workspaces ADD COLUMN due double precision;
CREATE INDEX ON workspaces (due) WHERE owner IS NULL;

CREATE FUNCTION epoch() RETURNS double precision
LANGUAGE sql VOLATILE AS $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

-- A replica that has released everything, or is known to have ended, is deleted. Only that replica
-- knew when something is due in what it ran, so whatever has scheduled steps is due now.
CREATE FUNCTION release_all() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE workspaces f SET owner = NULL, wanted_by = NULL,
    due = CASE WHEN EXISTS (SELECT FROM workspaces m JOIN steps s USING (workspace)
      WHERE m.family = f.workspace AND s.state = '') THEN epoch() END
  WHERE f.owner = OLD.replica AND f.workspace = f.family;
  IF FOUND THEN NOTIFY invoice_sandbox; END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER release_all AFTER DELETE ON replicas FOR EACH ROW EXECUTE FUNCTION release_all();

-- Some replicas have ended already.
UPDATE workspaces f SET owner = NULL, due = epoch()
WHERE f.workspace = f.family AND NOT EXISTS (SELECT FROM replicas WHERE replica = f.owner);

-- As before, but every family of a replica that has ended is released, not only this one; and the
-- other replica gets a hint that it is asked for a family.
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
        IF FOUND THEN NOTIFY invoice_sandbox; END IF;
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

-- Fails if the replica was replaced; until the transaction ends it cannot be.
CREATE FUNCTION must_be_registered(own bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  PERFORM FROM replicas WHERE replica = own FOR KEY SHARE;
  IF NOT FOUND THEN RAISE EXCEPTION 'replica % was replaced', own USING ERRCODE = 'IS001'; END IF;
END $$;

-- Families without a replica in which something is due, the first ones first: the replica runs them
-- from now on. And in how many seconds something is due in another one, unless a replica runs it by
-- then. A family that another replica has asked for is left to it for a second.
DROP FUNCTION claim_waiting(bigint, integer);
CREATE FUNCTION take_due(own bigint, most integer)
RETURNS TABLE (taken text[], seconds double precision)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  DELETE FROM replicas WHERE replica IN (SELECT replica FROM replicas
    WHERE until < clock_timestamp() AND replica <> own FOR UPDATE SKIP LOCKED);
  PERFORM must_be_registered(own);
  WITH found AS (
    UPDATE workspaces SET owner = own, wanted_by = NULL WHERE workspace IN (
      SELECT workspace FROM workspaces
      WHERE owner IS NULL AND due <= epoch()
        AND (wanted_by IS NULL OR wanted_by = own OR due <= epoch() - 1)
      ORDER BY due LIMIT most FOR UPDATE SKIP LOCKED
    ) RETURNING workspace
  ) SELECT coalesce(array_agg(workspace), '{}') INTO taken FROM found;
  seconds := (SELECT min(due) FROM workspaces WHERE owner IS NULL) - epoch();
  RETURN NEXT;
END $$;

-- The replica no longer runs these families, in which something is due in so many seconds since
-- 1970; null: never.
DROP FUNCTION release(bigint, text);
CREATE FUNCTION release(own bigint, names text[], times double precision[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE workspaces w SET owner = NULL, due = greatest(given.at, epoch())
  FROM unnest(names, times) AS given (name, at)
  WHERE w.workspace = given.name AND w.owner = own AND given.at IS NOT NULL;
  IF FOUND THEN NOTIFY invoice_sandbox; END IF;
  UPDATE workspaces w SET owner = NULL, due = NULL
  WHERE w.workspace = ANY (names) AND w.owner = own;
END $$;

DO $$ DECLARE one regprocedure; BEGIN
  FOREACH one IN ARRAY ARRAY[
    'epoch()', 'release_all()', 'must_be_registered(bigint)', 'take_due(bigint, integer)',
    'release(bigint, text[], double precision[])'
  ]::regprocedure[] LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO invoice_sandbox_server', one);
  END LOOP;
END $$;
"""


def upgrade() -> None:
    """Add what is due, and replace the functions that release and claim families."""
    op.execute(_SCHEMA)
