"""Workspaces, everything in them, and the replicas that run them."""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None

_SCHEMA = """
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'invoice_sandbox_server') THEN
    CREATE ROLE invoice_sandbox_server NOLOGIN;
  END IF;
  EXECUTE format('GRANT invoice_sandbox_server TO %I', current_user);
EXCEPTION WHEN insufficient_privilege THEN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'invoice_sandbox_server') THEN
    RAISE EXCEPTION 'the role invoice_sandbox_server does not exist, and % may not create it',
      current_user;
  END IF;
END $$;

GRANT USAGE ON SCHEMA invoice_sandbox TO invoice_sandbox_server;
GRANT SELECT ON invoice_sandbox.alembic_version TO invoice_sandbox_server;
SET LOCAL search_path = invoice_sandbox;

-- A replica is a server process. Its row is deleted when it stops, or by another replica when
-- "until" has passed; then it can write nothing more. "batch" is the number of its last write.
CREATE TABLE replicas (
  replica bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  address text NOT NULL,
  until timestamptz NOT NULL,
  batch bigint NOT NULL DEFAULT 0
);

-- What replicas know each other by.
CREATE TABLE deployments AS SELECT gen_random_uuid()::text || gen_random_uuid()::text AS secret;

-- A family is a child of the first workspace with everything created from it. One replica at a time
-- runs it: the "owner" in the row of that child. Another one that needs it is "wanted_by".
CREATE TABLE workspaces (
  workspace text COLLATE "C" PRIMARY KEY,
  position bigint NOT NULL,
  last_used text NOT NULL,
  snapshots bigint NOT NULL,
  family text COLLATE "C" NOT NULL DEFAULT '',
  owner bigint,
  wanted_by bigint
);
CREATE UNIQUE INDEX ON workspaces (position) WHERE position = 0;
CREATE INDEX ON workspaces (family);
CREATE INDEX ON workspaces (owner);

CREATE TABLE states (
  workspace text COLLATE "C",
  state text COLLATE "C",
  content bytea NOT NULL,
  snapshot bytea,
  written bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (workspace, state)
);
CREATE TABLE records (
  workspace text COLLATE "C",
  state text COLLATE "C",
  collection text COLLATE "C",
  position bigint,
  name bytea NOT NULL,
  content bytea,
  PRIMARY KEY (workspace, state, collection, position)
);
CREATE TABLE numbers (
  workspace text COLLATE "C",
  state text COLLATE "C",
  name bytea,
  value bigint NOT NULL,
  PRIMARY KEY (workspace, state, name)
);
CREATE TABLE steps (
  workspace text COLLATE "C",
  state text COLLATE "C",
  number bigint,
  due text NOT NULL,
  lane text,
  content bytea NOT NULL,
  PRIMARY KEY (workspace, state, number)
);
CREATE TABLE credentials (
  workspace text COLLATE "C",
  state text COLLATE "C",
  digest text COLLATE "C",
  content bytea NOT NULL,
  PRIMARY KEY (workspace, state, digest)
);
CREATE UNIQUE INDEX ON credentials (digest) WHERE state = '';
CREATE TABLE logs (
  workspace text COLLATE "C",
  log text COLLATE "C",
  number bigint,
  content bytea NOT NULL,
  PRIMARY KEY (workspace, log, number)
);

-- The server sees the rows of the workspace that a transaction names, and no others, even if a
-- statement forgets its condition. The owner of the tables is the role of the functions below.
DO $$ DECLARE one text; BEGIN
  FOREACH one IN ARRAY ARRAY[
    'workspaces', 'states', 'records', 'numbers', 'steps', 'credentials', 'logs'
  ] LOOP
    EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', one);
    EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', one);
    EXECUTE format(
      'CREATE POLICY of_workspace ON %I TO invoice_sandbox_server '
      'USING (workspace = current_setting(''invoice_sandbox.workspace'', true)) '
      'WITH CHECK (workspace = current_setting(''invoice_sandbox.workspace'', true))', one);
    EXECUTE format(
      'CREATE POLICY of_owner ON %I TO %I USING (true) WITH CHECK (true)', one, current_user);
    EXECUTE format(
      'GRANT SELECT, INSERT, UPDATE, DELETE ON %I TO invoice_sandbox_server', one);
  END LOOP;
END $$;

-- A new replica, whose lease has that many seconds.
CREATE FUNCTION register(own_address text, seconds double precision) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  INSERT INTO replicas (address, until)
  VALUES (own_address, clock_timestamp() + make_interval(secs => seconds)) RETURNING replica
$$;

-- Begins write number "number" of a replica. Fails if the replica may not write any more (IS001),
-- or if it has made this write already (IS002). The row stays locked until the write ends.
CREATE FUNCTION fence(own bigint, number bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE replicas SET batch = number WHERE replica = own AND batch < number;
  IF NOT FOUND THEN
    IF EXISTS (SELECT FROM replicas WHERE replica = own) THEN
      RAISE EXCEPTION 'write % was made already', number USING ERRCODE = 'IS002';
    END IF;
    RAISE EXCEPTION 'replica % was replaced', own USING ERRCODE = 'IS001';
  END IF;
END $$;

-- Extends the lease of a replica, and returns the families that others want, and how many others
-- there are. Nothing: the replica was replaced.
CREATE FUNCTION beat(own bigint, seconds double precision)
RETURNS TABLE (wanted text[], others bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  UPDATE replicas SET until = clock_timestamp() + make_interval(secs => seconds)
  WHERE replica = own;
  IF NOT FOUND THEN RETURN; END IF;
  wanted := ARRAY(SELECT workspace FROM workspaces
    WHERE owner = own AND workspace = family AND wanted_by IS NOT NULL);
  others := (SELECT count(*) FROM replicas WHERE replica <> own AND until > clock_timestamp());
  RETURN NEXT;
END $$;

-- Ends the replica: it has released everything, or is known to have ended.
CREATE FUNCTION retire(other bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  DELETE FROM replicas WHERE replica = other
$$;

-- The family of the workspace that one of the credentials, or else the name, is of, and the replica
-- that runs it: "own" if no other does. Without either it is the family of the first workspace.
-- "is_wanted" asks the other replica for it.
CREATE FUNCTION claim(own bigint, digests text[], name text, is_wanted boolean)
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
  IF kin IS NULL THEN RETURN; END IF;
  FOR turn IN 1..2 LOOP
    SELECT w.owner, r.address INTO present, at_address
      FROM workspaces w LEFT JOIN replicas r
        ON r.replica = w.owner AND (r.until > clock_timestamp() OR r.replica = own)
      WHERE w.workspace = kin;
    IF at_address IS NOT NULL THEN
      runs := present;
      IF is_wanted AND present <> own THEN
        UPDATE workspaces w SET wanted_by = own WHERE w.workspace = kin;
      END IF;
      RETURN NEXT;
      RETURN;
    END IF;
    PERFORM FROM workspaces w WHERE w.workspace = kin FOR UPDATE;
    IF turn = 1 THEN CONTINUE; END IF;
    DELETE FROM replicas WHERE replica = present;
    UPDATE workspaces w SET owner = own, wanted_by = NULL
      WHERE w.workspace = kin AND EXISTS (SELECT FROM replicas WHERE replica = own);
    IF NOT FOUND THEN RAISE EXCEPTION 'replica % was replaced', own USING ERRCODE = 'IS001'; END IF;
  END LOOP;
  SELECT own, r.address INTO runs, at_address FROM replicas r WHERE r.replica = own;
  RETURN NEXT;
END $$;

-- Families without a replica in which something is scheduled. The replica runs them from now on.
CREATE FUNCTION claim_waiting(own bigint, most integer) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  DELETE FROM replicas WHERE until < clock_timestamp() AND replica <> own;
  RETURN QUERY UPDATE workspaces SET owner = own, wanted_by = NULL WHERE workspace IN (
    SELECT w.workspace FROM workspaces w
    WHERE w.workspace = w.family
      AND (w.owner IS NULL OR NOT EXISTS (SELECT FROM replicas WHERE replica = w.owner))
      AND EXISTS (SELECT FROM workspaces m JOIN steps s USING (workspace)
        WHERE m.family = w.workspace AND s.state = '')
    LIMIT most FOR UPDATE OF w SKIP LOCKED
  ) RETURNING workspace;
END $$;

-- The replica no longer runs the family.
CREATE FUNCTION release(own bigint, name text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  UPDATE workspaces SET owner = NULL WHERE workspace = name AND owner = own
$$;

-- Adds an empty workspace, which the replica runs. False: the name is taken.
CREATE FUNCTION reserve(own bigint, name text, place bigint, used text, kin text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$ BEGIN
  INSERT INTO workspaces (workspace, position, last_used, snapshots, family, owner)
    VALUES (name, place, used, 0, kin, own) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$;

-- Every workspace of a family.
CREATE FUNCTION members(kin text) RETURNS SETOF text
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  SELECT workspace FROM workspaces WHERE family = kin ORDER BY position, workspace
$$;

-- Every workspace, in the order of creation, without its content.
CREATE FUNCTION directory() RETURNS TABLE (name text, used text, described bytea)
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  SELECT workspace, last_used, content FROM workspaces JOIN states USING (workspace)
  WHERE state = '' ORDER BY position, workspace
$$;

-- The credential with that digest, in whatever workspace.
CREATE FUNCTION look_up(wanted text) RETURNS bytea
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  SELECT content FROM credentials WHERE state = '' AND digest = wanted
$$;

-- What replicas know each other by.
CREATE FUNCTION deployment() RETURNS text
LANGUAGE sql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
  SELECT secret FROM deployments
$$;

DO $$ DECLARE one regprocedure; BEGIN
  FOR one IN SELECT oid FROM pg_proc WHERE pronamespace = 'invoice_sandbox'::regnamespace LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', one);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO invoice_sandbox_server', one);
  END LOOP;
END $$;
"""


def upgrade() -> None:
    """Create everything."""
    op.execute(_SCHEMA)
