"""Replicas of one version only; a credential is found by a policy."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

_SCHEMA = """
SET LOCAL search_path = invoice_sandbox;

-- As before, but only for a server that uses the schema as it is now. One of an older version that
-- still runs is replaced when the schema is upgraded, and cannot become a new replica.
DROP FUNCTION register(text, double precision);
CREATE FUNCTION register(own_address text, seconds double precision, used text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = invoice_sandbox, pg_temp AS $$
DECLARE present text; own bigint; BEGIN
  SELECT version_num INTO present FROM alembic_version;
  IF present <> used THEN
    RAISE EXCEPTION 'its schema is %, this server uses %: start a server of the newer version',
      present, used;
  END IF;
  INSERT INTO replicas (address, until)
    VALUES (own_address, clock_timestamp() + make_interval(secs => seconds))
    RETURNING replica INTO own;
  RETURN own;
END $$;
REVOKE ALL ON FUNCTION register(text, double precision, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION register(text, double precision, text) TO invoice_sandbox_server;

-- A transaction that names a digest sees the credential with it, in whatever workspace.
DROP FUNCTION look_up(text);
CREATE POLICY of_digest ON credentials FOR SELECT TO invoice_sandbox_server
USING (state = '' AND digest = current_setting('invoice_sandbox.digest', true));

-- Only other functions and a trigger call these.
REVOKE EXECUTE ON FUNCTION epoch(), release_all(), must_be_registered(bigint)
FROM invoice_sandbox_server;
"""


def upgrade() -> None:
    """Replace a function, and another one by a policy."""
    op.execute(_SCHEMA)
