package wal

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/replicant-sidecar/replicant-sidecar/core"
)

// oldestMajor is the first major that this project supports.
const oldestMajor = 14

// Connect opens a replication connection to the database, with the pinned settings in
// force. Nothing is read and no slot is touched.
//
// Halt slots_exhausted comes only after SenderTimeout: until then the missing walsender
// may be our own earlier one, which the server has not missed yet.
func Connect(ctx context.Context, o Options) (*Conn, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	config.RuntimeParams["replication"] = "database"
	config.RuntimeParams["wal_sender_timeout"] = strconv.FormatInt(o.SenderTimeout.Milliseconds(), 10) + "ms"
	dial := config.DialFunc
	config.DialFunc = dialSocket(dial, !o.NoNap)
	pg, err := connectPatiently(ctx, config, o.SenderTimeout)
	if err != nil {
		return nil, err
	}
	c := newConn(o, pg)
	if err := c.checkServer(ctx); err != nil {
		_ = pg.Close(ctx)
		return nil, classify(ctx, phaseCommand, err)
	}
	return c, nil
}

// connectPatiently connects and waits for a walsender to come free.
func connectPatiently(ctx context.Context, config *pgconn.Config, patience time.Duration) (*pgconn.PgConn, error) {
	const pause = 100 * time.Millisecond
	for deadline := time.Now().Add(patience); ; {
		pg, err := pgconn.ConnectConfig(ctx, config)
		if err == nil {
			return pg, nil
		}
		err = classify(ctx, phaseConnect, err)
		halt, ok := core.AsHalt(err)
		if !ok || halt.Code != core.HaltSlotsExhausted || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// config parses the address and pins the settings; the same for every connection.
func (o Options) config() (*pgconn.Config, error) {
	config, err := pgconn.ParseConfig(o.DSN)
	if err != nil {
		return nil, core.NewHalt(core.HaltConfigInvalid, phaseConnect.String(), "the source address cannot be parsed")
	}
	o.prepare(config)
	return config, nil
}

func (o Options) prepare(config *pgconn.Config) {
	for name := range config.RuntimeParams {
		if strings.EqualFold(name, "replication") || strings.EqualFold(name, "wal_sender_timeout") {
			delete(config.RuntimeParams, name)
		}
	}
	pinStartup(config.RuntimeParams)
	if o.ApplicationName != "" {
		config.RuntimeParams["application_name"] = o.ApplicationName
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeoutDefault
	}
	config.DialFunc = watchfulDialer(config.ConnectTimeout)
	if o.DialFunc != nil {
		config.DialFunc = o.DialFunc
	}
}

// checkServer reads back what the server made of the startup packet.
func (c *Conn) checkServer(ctx context.Context) error {
	major, err := serverMajor(c.pg.ParameterStatus("server_version"))
	if err != nil {
		return err
	}
	c.major = major
	if late := lateSettings(major); late != "" {
		if _, err := c.query(ctx, late); err != nil {
			return err
		}
	}
	rows, err := c.query(ctx, checkSettings(major))
	if err != nil {
		return err
	}
	if len(rows) != 1 || len(rows[0]) != 3 {
		return core.NewHalt(core.HaltSourcePooler, phaseCommand.String(), "a plain query was answered in a way Postgres would not")
	}
	if wrong := rows[0][0]; wrong != "" {
		return core.NewHalt(core.HaltSourcePooler, phaseCommand.String(),
			"settings sent at the start of the connection are not in force: %s", wrong)
	}
	if rows[0][1] != strconv.FormatUint(uint64(c.pid), 10) {
		c.options.Logger.InfoContext(ctx, "a proxy stands between this process and Postgres")
	}
	shown, err := strconv.ParseInt(rows[0][2], 10, 64)
	if err != nil || shown < 0 {
		return core.NewHalt(core.HaltSourceRefused, phaseCommand.String(), "the server's wal_sender_timeout is not a number")
	}
	c.interval = statusInterval(c.options.StatusInterval, time.Duration(shown)*time.Millisecond)
	return nil
}

// statusInterval keeps three updates within the server's patience; 0 is endless patience.
func statusInterval(wanted, senderTimeout time.Duration) time.Duration {
	if third := senderTimeout / 3; third > 0 {
		return min(wanted, third)
	}
	return wanted
}

// serverMajor reads the major from server_version, such as "16.14 (Debian)" or "18beta1".
func serverMajor(version string) (int, error) {
	digits := 0
	for digits < len(version) && version[digits] >= '0' && version[digits] <= '9' {
		digits++
	}
	major, err := strconv.Atoi(version[:digits])
	if err != nil {
		return 0, core.NewHalt(core.HaltSourcePooler, phaseConnect.String(), "the server does not tell its version")
	}
	if major < oldestMajor {
		return 0, core.NewHalt(core.HaltServerUnsupported, phaseConnect.String(), "the server is of major %d", major)
	}
	return major, nil
}
