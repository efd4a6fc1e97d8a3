-- step 1: records, their log, leases
CREATE TABLE {schema}.head (
	one       boolean PRIMARY KEY DEFAULT true CHECK (one),
	version   integer NOT NULL,           -- of this schema: what a program has to know to work with it
	store     uuid NOT NULL DEFAULT gen_random_uuid(),
	origin    text NOT NULL,              -- the server and timeline that made the last commit
	era       bigint NOT NULL DEFAULT 1,  -- grows when origin changes or the revision went back
	opened    bigint NOT NULL DEFAULT 1,  -- leases are granted while this is equal to era
	revision  bigint NOT NULL DEFAULT 1,  -- of the last commit
	compacted bigint NOT NULL DEFAULT 1,  -- every change after this revision is in the log
	logged    bigint NOT NULL DEFAULT 0,  -- bytes ever written to the log
	longest   bigint NOT NULL DEFAULT 0   -- the longest lease ever granted, in milliseconds
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);

CREATE TABLE {schema}.records (
	kind      text COLLATE "C" NOT NULL,
	namespace text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	slot      smallint NOT NULL,          -- of 1,024, from namespace and name
	created   bigint NOT NULL,
	revision  bigint NOT NULL,
	lease     bigint NOT NULL DEFAULT 0,  -- 0: bound to none
	value     bytea NOT NULL,
	PRIMARY KEY (kind, namespace, name)
) WITH (fillfactor = 80);

CREATE INDEX records_lease ON {schema}.records (lease) WHERE lease <> 0;

CREATE TABLE {schema}.changes (
	revision  bigint NOT NULL,
	ordinal   integer NOT NULL,           -- from 1 within a revision
	kind      text COLLATE "C" NOT NULL,
	namespace text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	slot      smallint NOT NULL,
	created   bigint NOT NULL,
	prev      bigint NOT NULL,            -- the revision that this one replaced; 0: there was none
	deleted   boolean NOT NULL,
	value     bytea NOT NULL,             -- as written, or of a deletion as it last was
	before    bytea,                      -- what was replaced, where the log no longer holds prev
	PRIMARY KEY (revision, ordinal)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.2);

CREATE TABLE {schema}.leases (
	id      bigint PRIMARY KEY,
	era     bigint NOT NULL,
	ttl     bigint NOT NULL,              -- in milliseconds
	renewed bigint NOT NULL DEFAULT 0     -- counts renewals
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- origin names the server, its timeline, and this very table. It fails on a standby. It is not
-- LANGUAGE sql, because every commit calls it, and such a function is parsed and planned again
-- in every transaction.
CREATE FUNCTION {schema}.origin() RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN (SELECT system_identifier || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || '{schema}.head'::regclass::oid
		FROM pg_control_system());
END $$;

-- Commits are acknowledged when they are durable, whatever the server's default is.
CREATE FUNCTION {schema}.durable() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- holds judges a condition on a record with these revisions; NULL: there is no record. A
-- wanted 0 stands for any value, and two of them for "there is no record".
CREATE FUNCTION {schema}.holds(wcreated bigint, wrevision bigint, created bigint, revision bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN wcreated = 0 AND wrevision = 0 THEN revision IS NULL
		ELSE revision IS NOT NULL AND (wcreated = 0 OR wcreated = created) AND (wrevision = 0 OR wrevision = revision) END
$$;

-- commit applies many transactions ("members", from 1), each with conditions of its own.
-- No member may write what another one reads or writes. The arrays c... are conditions,
-- with their member and their number from 1 within it; the arrays o... are writes. A
-- condition on a record that its member writes may be given with that write (onumber,
-- ocreated, orevision; onumber 0: there is none), so that the record is looked up once.
--
-- The first row has member 0 and the revision of the store before. Its failed is -2 if
-- nothing was done, because the store is not the one that was seen; it is the only row then.
-- Then come the members that were refused, with the number of the first condition that
-- does not hold (-1: its lease is gone) and what is there, and the members that changed
-- something, with their revision.
CREATE FUNCTION {schema}.commit(
	seen bigint, channel text, members integer,
	cm integer[], cnumber integer[], ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	om integer[], okind text[], ospace text[], oname text[], oslot smallint[], ovalue bytea[], olease bigint[],
	onumber integer[], ocreated bigint[], orevision bigint[]
) RETURNS TABLE (member integer, at bigint, failed integer, made bigint, holds bigint, content bytea)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	h {schema}.head%ROWTYPE;
BEGIN
	PERFORM {schema}.durable();
	-- From here on this transaction is alone, and what follows has a newer snapshot.
	SELECT * INTO STRICT h FROM {schema}.head FOR UPDATE;
	IF h.revision < seen OR h.origin <> {schema}.origin() THEN
		RETURN QUERY SELECT 0, h.revision, -2, 0::bigint, 0::bigint, NULL::bytea;
		RETURN;
	END IF;
	RETURN QUERY SELECT 0, h.revision, 0, 0::bigint, 0::bigint, NULL::bytea;
	RETURN QUERY
	WITH asked AS MATERIALIZED (
		SELECT o.*, r.ctid AS place, r.created, r.revision AS prev, {schema}.holds(o.wcreated, o.wrevision, r.created, r.revision) OR o.n = 0 AS held,
			CASE WHEN o.value IS NULL OR r.revision <= h.compacted OR NOT {schema}.holds(o.wcreated, o.wrevision, r.created, r.revision) THEN r.value END AS was
		FROM unnest(om, okind, ospace, oname, oslot, ovalue, olease, onumber, ocreated, orevision)
			WITH ORDINALITY AS o(m, kind, namespace, name, slot, value, lease, n, wcreated, wrevision, i)
		LEFT JOIN {schema}.records r ON r.kind = o.kind AND r.namespace = o.namespace AND r.name = o.name
	), refused AS MATERIALIZED (
		SELECT DISTINCT ON (m) * FROM (
			SELECT m, n, created, prev, was FROM asked WHERE NOT held
			UNION ALL
			SELECT c.m, c.n, r.created, r.revision, r.value
			FROM unnest(cm, cnumber, ckind, cspace, cname, ccreated, crevision) AS c(m, n, kind, namespace, name, created, revision)
			LEFT JOIN {schema}.records r ON r.kind = c.kind AND r.namespace = c.namespace AND r.name = c.name
			WHERE NOT {schema}.holds(c.created, c.revision, r.created, r.revision)
		) AS failing ORDER BY m, n
	), gone AS MATERIALIZED (
		SELECT DISTINCT m FROM asked
		WHERE lease <> 0 AND NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = lease AND l.era = h.era)
	), op AS MATERIALIZED (
		SELECT m, kind, namespace, name, slot, value, lease, place, created, prev,
			h.revision + dense_rank() OVER (ORDER BY m) AS revision,
			row_number() OVER (PARTITION BY m ORDER BY i)::integer AS ordinal,
			CASE WHEN value IS NULL OR prev <= h.compacted THEN was END AS before
		FROM asked
		WHERE (value IS NOT NULL OR prev IS NOT NULL)
			AND m NOT IN (SELECT m FROM refused) AND m NOT IN (SELECT m FROM gone)
	), updated AS (
		-- The place of a record does not change meanwhile, because writers of records hold the lock.
		UPDATE {schema}.records r SET revision = op.revision, value = op.value, lease = op.lease
		FROM op WHERE op.value IS NOT NULL AND r.ctid = op.place
	), inserted AS (
		INSERT INTO {schema}.records (kind, namespace, name, slot, created, revision, lease, value)
		SELECT kind, namespace, name, slot, revision, revision, lease, value FROM op WHERE prev IS NULL
	), removed AS (
		DELETE FROM {schema}.records r USING op WHERE op.value IS NULL AND r.ctid = op.place
	), logged AS (
		INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
		SELECT revision, ordinal, kind, namespace, name, slot, coalesce(created, revision), coalesce(prev, 0),
			value IS NULL, coalesce(value, before), CASE WHEN value IS NOT NULL THEN before END
		FROM op
	), moved AS (
		UPDATE {schema}.head SET revision = s.revision, logged = logged + s.bytes
		FROM (SELECT max(revision) AS revision, sum(octet_length(coalesce(value, '')) + coalesce(octet_length(before), 0) + 200) AS bytes FROM op) s
		WHERE s.revision IS NOT NULL
		RETURNING CASE WHEN channel IS NOT NULL THEN pg_notify(channel, s.revision::text)::text END AS rung
	)
	SELECT m, 0::bigint, n, coalesce(created, 0), coalesce(prev, 0), CASE WHEN octet_length(was) <= 65536 / members THEN was END FROM refused
	UNION ALL
	SELECT m, 0::bigint, -1, 0::bigint, 0::bigint, NULL::bytea FROM gone WHERE m NOT IN (SELECT m FROM refused)
	UNION ALL
	SELECT m, revision, 0, coalesce(octet_length((SELECT rung FROM moved)), 0)::bigint, 0::bigint, NULL::bytea FROM op WHERE ordinal = 1;
END $$;

-- commit_one is commit for one member with one write, which is a put and bound to no
-- lease: what a lone caller mostly asks for, with a fifth of the work for the planner and the
-- executor. Its conditions on other records come before that on the record it writes. It
-- returns the one row of that member, or failed = -2 if the store is not the one that was
-- seen.
CREATE FUNCTION {schema}.commit_one(
	seen bigint, channel text,
	ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	okind text, ospace text, oname text, oslot smallint, ovalue bytea, onumber integer, ocreated bigint, orevision bigint,
	OUT member integer, OUT at bigint, OUT failed integer, OUT made bigint, OUT holds bigint, OUT content bytea
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	h {schema}.head%ROWTYPE;
	was record;
BEGIN
	member := 1; at := 0; failed := 0; made := 0; holds := 0; -- a NULL would be an error of the caller's
	PERFORM {schema}.durable();
	-- From here on this transaction is alone, and what follows has a newer snapshot.
	-- If the log has to hold what is replaced, too, that is taken to be as long as the new value.
	UPDATE {schema}.head AS one SET revision = one.revision + 1,
		logged = one.logged + 200 + octet_length(ovalue) * CASE WHEN orevision BETWEEN 1 AND one.compacted THEN 2 ELSE 1 END
	WHERE one.revision >= seen AND one.origin = {schema}.origin() RETURNING * INTO h;
	IF h.revision IS NULL THEN
		failed := -2;
		RETURN;
	END IF;
	FOR i IN 1 .. coalesce(cardinality(ckind), 0) LOOP
		SELECT r.created, r.revision, r.value INTO was FROM {schema}.records r
		WHERE r.kind = ckind[i] AND r.namespace = cspace[i] AND r.name = cname[i];
		IF NOT {schema}.holds(ccreated[i], crevision[i], was.created, was.revision) THEN
			failed := i;
			EXIT;
		END IF;
	END LOOP;
	IF failed = 0 THEN
		SELECT r.ctid AS place, r.created, r.revision, r.value INTO was FROM {schema}.records r
		WHERE r.kind = okind AND r.namespace = ospace AND r.name = oname;
		IF onumber > 0 AND NOT {schema}.holds(ocreated, orevision, was.created, was.revision) THEN
			failed := onumber;
		END IF;
	END IF;
	IF failed <> 0 THEN
		UPDATE {schema}.head SET revision = h.revision - 1,
			logged = h.logged - 200 - octet_length(ovalue) * CASE WHEN orevision BETWEEN 1 AND h.compacted THEN 2 ELSE 1 END;
		at := h.revision - 1; made := coalesce(was.created, 0); holds := coalesce(was.revision, 0);
		content := CASE WHEN octet_length(was.value) <= 65536 THEN was.value END;
		RETURN;
	END IF;
	at := h.revision;
	IF was.revision IS NULL THEN
		INSERT INTO {schema}.records (kind, namespace, name, slot, created, revision, lease, value)
		VALUES (okind, ospace, oname, oslot, at, at, 0, ovalue);
	ELSE
		UPDATE {schema}.records r SET revision = h.revision, value = ovalue, lease = 0 WHERE r.ctid = was.place;
	END IF;
	INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
	VALUES (at, 1, okind, ospace, oname, oslot, coalesce(was.created, at), coalesce(was.revision, 0), false, ovalue,
		CASE WHEN was.revision <= h.compacted THEN was.value END);
	IF channel IS NOT NULL THEN
		PERFORM pg_notify(channel, at::text);
	END IF;
END $$;

-- end_leases ends leases whose count of renewals is still the one given (-1: whatever it
-- is), and those of eras before "open", which opens that era. It returns the revision, and
-- whether nothing was done because the store is not the one that was seen.
CREATE FUNCTION {schema}.end_leases(seen bigint, channel text, ids bigint[], counts bigint[], open bigint)
RETURNS TABLE (at bigint, other boolean)
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	h {schema}.head%ROWTYPE;
BEGIN
	PERFORM {schema}.durable();
	SELECT * INTO STRICT h FROM {schema}.head FOR UPDATE;
	IF h.revision < seen OR h.origin <> {schema}.origin() THEN
		RETURN QUERY SELECT h.revision, true;
		RETURN;
	END IF;
	IF open = h.era AND h.opened < open THEN
		UPDATE {schema}.head SET opened = open;
	ELSE
		open := 0;
	END IF;
	RETURN QUERY
	WITH ended AS (
		DELETE FROM {schema}.leases l
		WHERE l.era < open OR l.id IN (SELECT id FROM unnest(ids, counts) AS e(id, n) WHERE id = l.id AND (n = -1 OR n = l.renewed))
		RETURNING l.id
	), removed AS (
		DELETE FROM {schema}.records r USING ended WHERE r.lease = ended.id AND r.lease <> 0
		RETURNING r.*
	), numbered AS (
		SELECT *, row_number() OVER () AS i FROM removed
	), logged AS (
		INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value)
		SELECT h.revision + 1, i, kind, namespace, name, slot, created, revision, true, value FROM numbered
	), moved AS (
		UPDATE {schema}.head SET revision = h.revision + 1, logged = h.logged + s.bytes
		FROM (SELECT sum(octet_length(value) + 200) AS bytes FROM removed) s
		WHERE s.bytes IS NOT NULL
		RETURNING CASE WHEN channel IS NOT NULL THEN pg_notify(channel, (h.revision + 1)::text)::text END AS rung
	)
	SELECT h.revision + (SELECT count(*) FROM moved), false;
END $$;
-- step 2: declarations, which callers add in transactions of their own
CREATE TABLE {schema}.inbox (
	id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	kind      text COLLATE "C" NOT NULL,
	namespace text COLLATE "C" NOT NULL,
	name      text COLLATE "C" NOT NULL,
	value     bytea NOT NULL,
	refused   text                        -- why it cannot be applied; NULL: it can, or has not been tried
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- declare adds a declaration, in the caller's transaction. Those of one record are in the
-- order of their commits, because a second one waits for the end of the first's transaction.
CREATE FUNCTION {schema}.declare(kind text, namespace text, name text, value bytea, channel text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws('/', '{schema}', kind, namespace, name), 0));
	INSERT INTO {schema}.inbox (kind, namespace, name, value) VALUES (kind, namespace, name, value);
	IF channel IS NOT NULL THEN
		PERFORM pg_notify(channel, 'inbox');
	END IF;
END $$;

-- drain is commit for declarations, whose ids are those of the members. It does nothing,
-- and returns nothing, unless all of them are still there. Those that are not refused are
-- removed in the same transaction, so that each is applied once.
CREATE FUNCTION {schema}.drain(
	ids bigint[], seen bigint, channel text, members integer,
	cm integer[], cnumber integer[], ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	om integer[], okind text[], ospace text[], oname text[], oslot smallint[], ovalue bytea[], olease bigint[],
	onumber integer[], ocreated bigint[], orevision bigint[]
) RETURNS TABLE (member integer, at bigint, failed integer, made bigint, holds bigint, content bytea)
LANGUAGE plpgsql
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	conflicts bigint[] := '{}';
BEGIN
	IF (SELECT count(*) FROM {schema}.inbox i WHERE i.id = ANY (ids)) <> cardinality(ids) THEN
		RETURN; -- seen without the lock: another server was faster
	END IF;
	PERFORM FROM {schema}.head FOR UPDATE;
	IF (SELECT count(*) FROM {schema}.inbox i WHERE i.id = ANY (ids)) <> cardinality(ids) THEN
		RETURN;
	END IF;
	FOR member, at, failed, made, holds, content IN
		SELECT * FROM {schema}.commit(seen, channel, members, cm, cnumber, ckind, cspace, cname, ccreated, crevision,
			om, okind, ospace, oname, oslot, ovalue, olease, onumber, ocreated, orevision)
	LOOP
		IF member = 0 AND failed <> 0 THEN
			RETURN NEXT;
			RETURN;
		END IF;
		IF member > 0 AND failed <> 0 THEN
			conflicts := conflicts || ids[member];
		END IF;
		RETURN NEXT;
	END LOOP;
	DELETE FROM {schema}.inbox i WHERE i.id = ANY (ids) AND NOT i.id = ANY (conflicts);
END $$;
-- step 3: the steps that were done; a watch's look at the log, with a plan that is made once
ALTER TABLE {schema}.head ADD COLUMN steps integer; -- NULL: as many as its version

-- read_log returns the head, in a row without a revision, and of the log after a revision the
-- changes of these kinds and of their slots, in order: at most so many, and none after those
-- that are so many bytes together. All of it is of one snapshot, because the function is
-- STABLE. It is a function because PostgreSQL plans the statement for every execution
-- otherwise, which takes longer than to execute it.
CREATE FUNCTION {schema}.read_log(after bigint, kinds text[], slots bytea[], most integer, bytes bigint)
RETURNS TABLE (
	era bigint, opened bigint, head bigint, compacted bigint, logged bigint, longest bigint, same boolean,
	revision bigint, kind text, namespace text, name text, created bigint, deleted boolean, value bytea
)
LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	weight bigint := 0;
BEGIN
	SELECT h.era, h.opened, h.revision, h.compacted, h.logged, h.longest, h.origin = {schema}.origin()
		INTO STRICT era, opened, head, compacted, logged, longest, same
		FROM {schema}.head h WHERE h.one;
	RETURN NEXT;
	FOR revision, kind, namespace, name, created, deleted, value IN
		SELECT revision, kind, namespace, name, created, deleted, value FROM {schema}.changes
		WHERE revision > after AND kind = ANY (kinds)
			AND coalesce(get_bit(slots[array_position(kinds, kind)], slot) = 1, true)
		ORDER BY revision, ordinal LIMIT most
	LOOP
		RETURN NEXT;
		weight := weight + octet_length(value);
		EXIT WHEN weight >= bytes;
	END LOOP;
END $$;
-- step 4: an index for lists of few slots, and the functions that every commit calls, with less work for the
-- server and as they were called before
CREATE INDEX records_slot ON {schema}.records (kind, slot, namespace, name);

-- origin asks for the server's identity once a session: it is in a file, and the same for as long
-- as the server runs. Its timeline is asked for each time, because sessions outlive a promotion.
CREATE OR REPLACE FUNCTION {schema}.origin() RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE
	system text := current_setting('tend.system', true); -- '' after a rollback
BEGIN
	IF system IS NULL OR system = '' THEN
		system := set_config('tend.system', (SELECT system_identifier::text FROM pg_control_system()), false);
	END IF;
	RETURN system || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' || '{schema}.head'::regclass::oid;
END $$;

-- commit is as in step 1. Conditions on records that are not written, and leases, are looked at
-- in statements of their own, if there are any.
CREATE OR REPLACE FUNCTION {schema}.commit(
	seen bigint, channel text, members integer,
	cm integer[], cnumber integer[], ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	om integer[], okind text[], ospace text[], oname text[], oslot smallint[], ovalue bytea[], olease bigint[],
	onumber integer[], ocreated bigint[], orevision bigint[]
) RETURNS TABLE (member integer, at bigint, failed integer, made bigint, holds bigint, content bytea)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	h {schema}.head%ROWTYPE;
	refused integer[] := '{}'; -- members that need not be looked at any more
	gone integer[] := '{}';    -- members whose lease is gone
BEGIN
	PERFORM {schema}.durable();
	-- From here on this transaction is alone, and what follows has a newer snapshot.
	SELECT * INTO STRICT h FROM {schema}.head FOR UPDATE;
	IF h.revision < seen OR h.origin <> {schema}.origin() THEN
		RETURN QUERY SELECT 0, h.revision, -2, 0::bigint, 0::bigint, NULL::bytea;
		RETURN;
	END IF;
	member := 0; at := h.revision; failed := 0; made := 0; holds := 0;
	RETURN NEXT;
	IF cardinality(cm) > 0 THEN
		FOR member, failed, made, holds, content IN
			SELECT DISTINCT ON (c.m) c.m, c.n, coalesce(r.created, 0), coalesce(r.revision, 0),
				CASE WHEN octet_length(r.value) <= 65536 / members THEN r.value END
			FROM unnest(cm, cnumber, ckind, cspace, cname, ccreated, crevision) AS c(m, n, kind, namespace, name, created, revision)
			LEFT JOIN {schema}.records r ON r.kind = c.kind AND r.namespace = c.namespace AND r.name = c.name
			WHERE NOT {schema}.holds(c.created, c.revision, r.created, r.revision)
			ORDER BY c.m, c.n
		LOOP
			at := 0;
			refused := refused || member;
			RETURN NEXT;
		END LOOP;
	END IF;
	IF 0 <> ANY (olease) THEN
		gone := ARRAY(SELECT m FROM unnest(om, olease) AS o(m, lease)
			WHERE lease <> 0 AND NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = lease AND l.era = h.era));
	END IF;
	RETURN QUERY
	WITH asked AS MATERIALIZED (
		SELECT o.*, r.ctid AS place, r.created, r.revision AS prev,
			CASE WHEN o.n > 0 AND NOT {schema}.holds(o.wcreated, o.wrevision, r.created, r.revision) THEN o.n
				WHEN o.m = ANY (gone) THEN -1 ELSE 0 END AS verdict,
			CASE WHEN o.value IS NULL OR r.revision <= h.compacted OR o.n > 0 AND NOT {schema}.holds(o.wcreated, o.wrevision, r.created, r.revision) THEN r.value END AS was
		FROM unnest(om, okind, ospace, oname, oslot, ovalue, olease, onumber, ocreated, orevision)
			WITH ORDINALITY AS o(m, kind, namespace, name, slot, value, lease, n, wcreated, wrevision, i)
		LEFT JOIN {schema}.records r ON r.kind = o.kind AND r.namespace = o.namespace AND r.name = o.name
		WHERE o.m <> ALL (refused)
	), op AS MATERIALIZED (
		SELECT m, kind, namespace, name, slot, value, lease, place, created, prev,
			h.revision + dense_rank() OVER (ORDER BY m) AS revision,
			row_number() OVER (PARTITION BY m ORDER BY i)::integer AS ordinal,
			CASE WHEN value IS NULL OR prev <= h.compacted THEN was END AS before
		FROM asked
		WHERE verdict = 0 AND (value IS NOT NULL OR prev IS NOT NULL)
	), updated AS (
		-- The place of a record does not change meanwhile, because writers of records hold the lock.
		UPDATE {schema}.records r SET revision = op.revision, value = op.value, lease = op.lease
		FROM op WHERE op.value IS NOT NULL AND r.ctid = op.place
	), inserted AS (
		INSERT INTO {schema}.records (kind, namespace, name, slot, created, revision, lease, value)
		SELECT kind, namespace, name, slot, revision, revision, lease, value FROM op WHERE prev IS NULL
	), removed AS (
		DELETE FROM {schema}.records r USING op WHERE op.value IS NULL AND r.ctid = op.place
	), logged AS (
		INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
		SELECT revision, ordinal, kind, namespace, name, slot, coalesce(created, revision), coalesce(prev, 0),
			value IS NULL, coalesce(value, before), CASE WHEN value IS NOT NULL THEN before END
		FROM op
	), moved AS (
		UPDATE {schema}.head SET revision = s.revision, logged = logged + s.bytes
		FROM (SELECT max(revision) AS revision, sum(octet_length(coalesce(value, '')) + coalesce(octet_length(before), 0) + 200) AS bytes FROM op) s
		WHERE s.revision IS NOT NULL
		RETURNING CASE WHEN channel IS NOT NULL THEN pg_notify(channel, s.revision::text)::text END AS rung
	)
	SELECT * FROM (
		SELECT DISTINCT ON (m) m, 0::bigint, verdict, CASE WHEN verdict > 0 THEN coalesce(created, 0) ELSE 0 END,
			CASE WHEN verdict > 0 THEN coalesce(prev, 0) ELSE 0 END, CASE WHEN verdict > 0 AND octet_length(was) <= 65536 / members THEN was END
		FROM asked WHERE verdict <> 0
	) AS refused
	UNION ALL
	SELECT m, revision, 0, coalesce(octet_length((SELECT rung FROM moved)), 0)::bigint, 0::bigint, NULL::bytea FROM op WHERE ordinal = 1;
END $$;

-- commit_one is as in step 1. Of a record that its writer has read, and nobody has written since,
-- nothing is fetched into variables: what it was goes from the table into the log.
CREATE OR REPLACE FUNCTION {schema}.commit_one(
	seen bigint, channel text,
	ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	okind text, ospace text, oname text, oslot smallint, ovalue bytea, onumber integer, ocreated bigint, orevision bigint,
	OUT member integer, OUT at bigint, OUT failed integer, OUT made bigint, OUT holds bigint, OUT content bytea
)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	cut bigint; -- the head's compacted
	was record;
BEGIN
	member := 1; at := 0; failed := 0; made := 0; holds := 0; -- a NULL would be an error of the caller's
	PERFORM {schema}.durable();
	-- From here on this transaction is alone, and what follows has a newer snapshot.
	-- If the log has to hold what is replaced, too, that is taken to be as long as the new value.
	UPDATE {schema}.head AS one SET revision = one.revision + 1,
		logged = one.logged + 200 + octet_length(ovalue) * CASE WHEN orevision BETWEEN 1 AND one.compacted THEN 2 ELSE 1 END
	WHERE one.revision >= seen AND one.origin = {schema}.origin() RETURNING one.revision, one.compacted INTO at, cut;
	IF at IS NULL THEN
		at := 0; failed := -2;
		RETURN;
	END IF;
	FOR i IN 1 .. coalesce(cardinality(ckind), 0) LOOP
		SELECT r.created, r.revision, r.value INTO was FROM {schema}.records r
		WHERE r.kind = ckind[i] AND r.namespace = cspace[i] AND r.name = cname[i];
		IF NOT {schema}.holds(ccreated[i], crevision[i], was.created, was.revision) THEN
			failed := i;
			EXIT;
		END IF;
	END LOOP;
	IF failed = 0 THEN
		IF onumber > 0 AND orevision > 0 THEN
			INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
			SELECT at, 1, okind, ospace, oname, oslot, r.created, orevision, false, ovalue, CASE WHEN orevision <= cut THEN r.value END
			FROM {schema}.records r
			WHERE r.kind = okind AND r.namespace = ospace AND r.name = oname AND r.revision = orevision AND (ocreated = 0 OR r.created = ocreated);
			IF FOUND THEN
				UPDATE {schema}.records r SET revision = at, value = ovalue, lease = 0
				WHERE r.kind = okind AND r.namespace = ospace AND r.name = oname;
				IF channel IS NOT NULL THEN
					PERFORM pg_notify(channel, at::text);
				END IF;
				RETURN;
			END IF;
		END IF;
		SELECT r.ctid AS place, r.created, r.revision, r.value INTO was FROM {schema}.records r
		WHERE r.kind = okind AND r.namespace = ospace AND r.name = oname;
		IF onumber > 0 AND NOT {schema}.holds(ocreated, orevision, was.created, was.revision) THEN
			failed := onumber;
		END IF;
	END IF;
	IF failed <> 0 THEN
		at := at - 1; made := coalesce(was.created, 0); holds := coalesce(was.revision, 0);
		UPDATE {schema}.head SET revision = at,
			logged = logged - 200 - octet_length(ovalue) * CASE WHEN orevision BETWEEN 1 AND cut THEN 2 ELSE 1 END;
		content := CASE WHEN octet_length(was.value) <= 65536 THEN was.value END;
		RETURN;
	END IF;
	IF was.revision IS NULL THEN
		INSERT INTO {schema}.records (kind, namespace, name, slot, created, revision, lease, value)
		VALUES (okind, ospace, oname, oslot, at, at, 0, ovalue);
	ELSE
		UPDATE {schema}.records r SET revision = at, value = ovalue, lease = 0 WHERE r.ctid = was.place;
	END IF;
	INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
	VALUES (at, 1, okind, ospace, oname, oslot, coalesce(was.created, at), coalesce(was.revision, 0), false, ovalue,
		CASE WHEN was.revision <= cut THEN was.value END);
	IF channel IS NOT NULL THEN
		PERFORM pg_notify(channel, at::text);
	END IF;
END $$;
-- step 5: the function commit, with less work for the server and as it was called before

-- commit is as in step 4, without a sort: the revision of a member is that of the store before and
-- its own number, so that there are gaps where members changed nothing, and the ordinals of a
-- revision grow, but need not begin at 1. A member of several writes has a row for each, all with
-- its one outcome.
CREATE OR REPLACE FUNCTION {schema}.commit(
	seen bigint, channel text, members integer,
	cm integer[], cnumber integer[], ckind text[], cspace text[], cname text[], ccreated bigint[], crevision bigint[],
	om integer[], okind text[], ospace text[], oname text[], oslot smallint[], ovalue bytea[], olease bigint[],
	onumber integer[], ocreated bigint[], orevision bigint[]
) RETURNS TABLE (member integer, at bigint, failed integer, made bigint, holds bigint, content bytea)
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	h {schema}.head%ROWTYPE;
	refused integer[] := '{}'; -- members that need not be looked at any more
	gone integer[] := '{}';    -- members whose lease is gone
BEGIN
	PERFORM {schema}.durable();
	-- From here on this transaction is alone, and what follows has a newer snapshot.
	SELECT * INTO STRICT h FROM {schema}.head FOR UPDATE;
	IF h.revision < seen OR h.origin <> {schema}.origin() THEN
		RETURN QUERY SELECT 0, h.revision, -2, 0::bigint, 0::bigint, NULL::bytea;
		RETURN;
	END IF;
	member := 0; at := h.revision; failed := 0; made := 0; holds := 0;
	RETURN NEXT;
	IF cardinality(cm) > 0 THEN
		FOR member, failed, made, holds, content IN
			SELECT DISTINCT ON (c.m) c.m, c.n, coalesce(r.created, 0), coalesce(r.revision, 0),
				CASE WHEN octet_length(r.value) <= 65536 / members THEN r.value END
			FROM unnest(cm, cnumber, ckind, cspace, cname, ccreated, crevision) AS c(m, n, kind, namespace, name, created, revision)
			LEFT JOIN {schema}.records r ON r.kind = c.kind AND r.namespace = c.namespace AND r.name = c.name
			WHERE NOT {schema}.holds(c.created, c.revision, r.created, r.revision)
			ORDER BY c.m, c.n
		LOOP
			at := 0;
			refused := refused || member;
			RETURN NEXT;
		END LOOP;
	END IF;
	IF 0 <> ANY (olease) THEN
		gone := ARRAY(SELECT m FROM unnest(om, olease) AS o(m, lease)
			WHERE lease <> 0 AND NOT EXISTS (SELECT FROM {schema}.leases l WHERE l.id = lease AND l.era = h.era));
	END IF;
	RETURN QUERY
	WITH op AS MATERIALIZED (
		SELECT o.*, h.revision + o.m AS revision, r.ctid AS place, r.created, r.revision AS prev,
			CASE WHEN o.n > 0 AND NOT {schema}.holds(o.wcreated, o.wrevision, r.created, r.revision) THEN o.n
				WHEN o.m = ANY (gone) THEN -1 ELSE 0 END AS verdict,
			CASE WHEN o.value IS NULL OR r.revision <= h.compacted THEN r.value END AS before
		FROM unnest(om, okind, ospace, oname, oslot, ovalue, olease, onumber, ocreated, orevision)
			WITH ORDINALITY AS o(m, kind, namespace, name, slot, value, lease, n, wcreated, wrevision, i)
		LEFT JOIN {schema}.records r ON r.kind = o.kind AND r.namespace = o.namespace AND r.name = o.name
		WHERE o.m <> ALL (refused)
	), updated AS (
		-- The place of a record does not change meanwhile, because writers of records hold the lock.
		UPDATE {schema}.records r SET revision = op.revision, value = op.value, lease = op.lease
		FROM op WHERE verdict = 0 AND op.value IS NOT NULL AND r.ctid = op.place
	), inserted AS (
		INSERT INTO {schema}.records (kind, namespace, name, slot, created, revision, lease, value)
		SELECT kind, namespace, name, slot, revision, revision, lease, value FROM op WHERE verdict = 0 AND prev IS NULL AND value IS NOT NULL
	), removed AS (
		DELETE FROM {schema}.records r USING op WHERE verdict = 0 AND op.value IS NULL AND r.ctid = op.place
	), logged AS (
		INSERT INTO {schema}.changes (revision, ordinal, kind, namespace, name, slot, created, prev, deleted, value, before)
		SELECT revision, i, kind, namespace, name, slot, coalesce(created, revision), coalesce(prev, 0),
			value IS NULL, coalesce(value, before), CASE WHEN value IS NOT NULL THEN before END
		FROM op WHERE verdict = 0 AND (value IS NOT NULL OR prev IS NOT NULL)
	), moved AS (
		UPDATE {schema}.head SET revision = s.revision, logged = logged + s.bytes
		FROM (SELECT max(revision) AS revision, sum(octet_length(coalesce(value, '')) + coalesce(octet_length(before), 0) + 200) AS bytes
			FROM op WHERE verdict = 0 AND (value IS NOT NULL OR prev IS NOT NULL)) s
		WHERE s.revision IS NOT NULL
		RETURNING CASE WHEN channel IS NOT NULL THEN pg_notify(channel, s.revision::text)::text END AS rung
	)
	SELECT m, CASE WHEN verdict = 0 THEN revision ELSE 0 END, verdict,
		CASE WHEN verdict > 0 THEN coalesce(created, 0) ELSE coalesce(octet_length((SELECT rung FROM moved)), 0) END::bigint,
		CASE WHEN verdict > 0 THEN coalesce(prev, 0) ELSE 0 END,
		CASE WHEN verdict > 0 THEN (SELECT r.value FROM {schema}.records r WHERE r.ctid = place AND octet_length(r.value) <= 65536 / members) END
	FROM op WHERE verdict <> 0 OR value IS NOT NULL OR prev IS NOT NULL;
END $$;

-- step 6: vacuums of the table head. A page that is full of versions which a snapshot may see makes
-- the next commit use a new one. Pruning frees the old page, but only a vacuum makes it known as free, and
-- pruning also keeps the number of dead rows below the threshold of before.
ALTER TABLE {schema}.head SET (autovacuum_vacuum_threshold = 20);
