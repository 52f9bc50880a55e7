package config

// Config is everything that can be set. The tags are the only list of the keys: flags,
// environment, JSON schema and docs/configuration.md are made from them.
//
// Tags: yaml is the key; env and flag its other two names; group its heading in help;
// default is written as a user would; enum closes the set of values; secret values are
// masked wherever they are shown.
type Config struct {
	Source       DSN      `yaml:"source" env:"REPLICANT_SOURCE" flag:"source" group:"Source" secret:"true" description:"Address of the source database: postgres://user@host/database, or host=... dbname=... . The password is better kept in PGPASSWORD or a passfile."`
	Slot         string   `yaml:"slot" env:"REPLICANT_SLOT" flag:"slot" group:"Source" default:"replicant" description:"Name of the replication slot: lower-case letters, digits and underscores. It is made when it is needed; nothing drops it but snapshot_redo."`
	Publications []string `yaml:"publications" env:"REPLICANT_PUBLICATIONS" flag:"publications" group:"Source" default:"replicant" description:"Publications to stream. They must exist before the slot does. In the environment and as a flag: separated by commas, a name that holds a comma in double quotes."`
	StreamID     string   `yaml:"stream_id" env:"REPLICANT_STREAM_ID" flag:"stream-id" group:"Source" shown:"the slot's name" description:"Name under which the sink stores the position."`

	SenderTimeout  Duration `yaml:"sender_timeout" env:"REPLICANT_SENDER_TIMEOUT" flag:"sender-timeout" group:"Source" default:"10s" description:"After this long without an answer the server gives the connection up (wal_sender_timeout of our connection alone)."`
	StatusInterval Duration `yaml:"status_interval" env:"REPLICANT_STATUS_INTERVAL" flag:"status-interval" group:"Source" default:"5s" description:"How often the confirmed position is told to the server at least."`

	Streaming string `yaml:"streaming" env:"REPLICANT_STREAMING" flag:"streaming" group:"Source" default:"off" enum:"off,on" description:"on: take large transactions while they are in progress, so that less is left to do at their commit. What does not fit in memory goes to spill.dir. off: the server keeps each until it commits."`
	Spill     Spill  `yaml:"spill"`

	Messages bool `yaml:"messages" env:"REPLICANT_MESSAGES" flag:"messages" group:"Source" default:"false" description:"Stream logical messages (pg_logical_emit_message) too: those of a transaction in it, the others by HandleMessage, once where the sink stores the position and at least once with checkpoint_store."`

	Sink     Sink     `yaml:"sink"`
	Delivery Delivery `yaml:"delivery"`

	CheckpointStore CheckpointStore `yaml:"checkpoint_store"`
	AcceptUnfenced  bool            `yaml:"accept_unfenced" env:"REPLICANT_ACCEPT_UNFENCED" flag:"accept-unfenced" group:"Checkpoint store" default:"false" description:"With checkpoint_store: take a sink without an instance fence. After a timeout or a takeover an old row may then be written over a newer one."`

	Snapshot     string `yaml:"snapshot" env:"REPLICANT_SNAPSHOT" flag:"snapshot" group:"Snapshot" default:"none" enum:"none,initial,incremental" description:"How rows reach the sink that exist before the slot does. initial: all tables are copied as they are when the slot is made, then the stream begins; a copy that fails is made again from the start. incremental: tables are copied beside the stream, and a copy goes on where it stood. none: not at all."`
	SnapshotRedo bool   `yaml:"snapshot_redo" env:"REPLICANT_SNAPSHOT_REDO" flag:"snapshot-redo" group:"Snapshot" default:"false" description:"Once: the slot that an unfinished initial snapshot has left may be dropped, and all is copied again. Only a slot of pgoutput and of this database that nobody uses and for which no position is stored, and one slot a start."`
	Copy         Copy   `yaml:"copy"`

	GoForwardOnly      bool     `yaml:"go_forward_only" env:"REPLICANT_GO_FORWARD_ONLY" flag:"go-forward-only" group:"Start" default:"false" description:"Start an empty sink at the present end of the log. Rows that exist today never reach it."`
	AdoptSlot          bool     `yaml:"adopt_slot" env:"REPLICANT_ADOPT_SLOT" flag:"adopt-slot" group:"Start" default:"false" description:"Once: take over a slot that exists although the sink stores no position."`
	AcceptTimeline     uint32   `yaml:"accept_timeline" env:"REPLICANT_ACCEPT_TIMELINE" flag:"accept-timeline" group:"Start" default:"0" description:"Once, after a promotion was checked by hand: the timeline to go on with. 0 = none."`
	AcceptSchemaChange bool     `yaml:"accept_schema_change" env:"REPLICANT_ACCEPT_SCHEMA_CHANGE" flag:"accept-schema-change" group:"Start" default:"false" description:"Once, after the sink was adapted: go on with the shapes of tables whose change halted the last run. It speaks of what was committed before this start; a later change halts as ever."`
	Heartbeat          bool     `yaml:"heartbeat" env:"REPLICANT_HEARTBEAT" flag:"heartbeat" group:"Source" default:"true" description:"Write an empty logical message into a source that has been quiet for a minute, so that its slot keeps moving."`
	DrainTimeout       Duration `yaml:"drain_timeout" env:"REPLICANT_DRAIN_TIMEOUT" flag:"drain-timeout" group:"Limits" default:"30s" description:"How long a drain waits for work in flight before it gives up. Nothing is lost then: it is sent again at the next start."`
	OnHalt             string   `yaml:"on_halt" env:"REPLICANT_ON_HALT" flag:"on-halt" group:"Operation" default:"exit" enum:"exit,park" description:"After a halt: exit with the halt's code, or park: keep the admin port and the command up, not ready, with the reason on the page."`

	Admin Admin `yaml:"admin"`
	Log   Log   `yaml:"log"`
}

// Copy bounds what a snapshot takes of the source.
type Copy struct {
	Connections int      `yaml:"connections" env:"REPLICANT_COPY_CONNECTIONS" flag:"copy-connections" group:"Snapshot" default:"2" description:"Connections that read tables at once, large ones in ranges. The sink gets one unit at a time all the same."`
	ChunkRows   int      `yaml:"chunk_rows" env:"REPLICANT_COPY_CHUNK_ROWS" flag:"copy-chunk-rows" group:"Snapshot" default:"2000" description:"Rows that an incremental snapshot reads under one snapshot, at most. Fewer where they are wide."`
	MaxHold     Duration `yaml:"max_hold" env:"REPLICANT_COPY_MAX_HOLD" flag:"copy-max-hold" group:"Snapshot" default:"5m" description:"How long the stream waits for an incremental copy of a table without a key before that copy is put off: the stream goes on, and the copy is tried again after eight times as long, each time twice that, up to an hour. 0 = no bound."`
	MaxXminAge  int      `yaml:"max_xmin_age" env:"REPLICANT_COPY_MAX_XMIN_AGE" flag:"copy-max-xmin-age" group:"Snapshot" default:"500000000" description:"Halt an initial snapshot that has kept the source from cleaning up for so many transactions. 0 = no bound."`
	MaxHeld     Size     `yaml:"max_held" env:"REPLICANT_COPY_MAX_HELD" flag:"copy-max-held" group:"Snapshot" default:"0B" description:"Halt an initial snapshot when the slot keeps more WAL than this. 0B = no bound but the server's own (max_slot_wal_keep_size)."`
}

// Spill says where transactions in progress go, with streaming on.
type Spill struct {
	Dir string `yaml:"dir" env:"REPLICANT_SPILL_DIR" flag:"spill-dir" group:"Source" shown:"a folder of this user in the system's temporary one" description:"Folder for what does not fit in memory of transactions in progress; each slot has its own in it. Files there hold rows, have no name while they are used and are not needed after an end of any kind."`
	Max Size   `yaml:"max" env:"REPLICANT_SPILL_MAX" flag:"spill-max" group:"Source" default:"1GiB" description:"Most that these files hold together. Above it the sidecar halts, as a disk that runs full would stop others too."`
}

// Sink says where the sink is and how to talk to it.
type Sink struct {
	Address   string   `yaml:"address" env:"REPLICANT_SINK_ADDRESS" flag:"sink" group:"Sink" shown:"a private socket with run -- command" description:"Address of the sink: unix:/path/to.sock or host:port."`
	Wait      Duration `yaml:"wait" env:"REPLICANT_SINK_WAIT" flag:"sink-wait" group:"Sink" default:"0s" description:"How long to wait for the sink at the start. 0 = for ever."`
	TLS       TLS      `yaml:"tls"`
	TokenFile string   `yaml:"token_file" env:"REPLICANT_SINK_TOKEN_FILE" flag:"sink-token-file" group:"Sink" description:"File with a bearer token for the sink; read again when it changes."`
	Insecure  bool     `yaml:"insecure" env:"REPLICANT_SINK_INSECURE" flag:"sink-insecure" group:"Sink" default:"false" description:"Talk to a sink on another machine without TLS."`
}

// TLS names the files of a TLS connection to the sink.
type TLS struct {
	CA   string `yaml:"ca" env:"REPLICANT_SINK_TLS_CA" flag:"sink-tls-ca" group:"Sink" description:"File with the certificates (PEM) that the sink's certificate must chain to. TLS is used when one of the three files is given; without this one the system's certificates count."`
	Cert string `yaml:"cert" env:"REPLICANT_SINK_TLS_CERT" flag:"sink-tls-cert" group:"Sink" description:"File with our own certificate (PEM), for a sink that asks for one."`
	Key  string `yaml:"key" env:"REPLICANT_SINK_TLS_KEY" flag:"sink-tls-key" group:"Sink" description:"File with the private key of sink.tls.cert (PEM)."`
}

// Delivery says how transactions are grouped into units of work.
type Delivery struct {
	Mode            string   `yaml:"mode" env:"REPLICANT_DELIVERY_MODE" flag:"delivery-mode" group:"Delivery" default:"auto" enum:"auto,transaction,batch" description:"transaction: one call a transaction. batch: whole transactions together. auto: batch where the sink advertises BATCH."`
	MaxTransactions int      `yaml:"max_transactions" env:"REPLICANT_DELIVERY_MAX_TRANSACTIONS" flag:"delivery-max-transactions" group:"Delivery" default:"1000" description:"Most transactions in one batch."`
	MaxDelay        Duration `yaml:"max_delay" env:"REPLICANT_DELIVERY_MAX_DELAY" flag:"delivery-max-delay" group:"Delivery" default:"0s" description:"How long an idle sink waits for a batch to fill. 0 = it gets at once what is there."`
	MaxSpan         Size     `yaml:"max_span" env:"REPLICANT_DELIVERY_MAX_SPAN" flag:"delivery-max-span" group:"Delivery" default:"16MiB" description:"Most WAL that one batch spans."`
}

// CheckpointStore keeps the position where the sink does not: in one of two places.
type CheckpointStore struct {
	Postgres StorePostgres `yaml:"postgres"`
	File     StoreFile     `yaml:"file"`
	Batch    StoreBatch    `yaml:"batch"`
	Wait     Duration      `yaml:"wait" env:"REPLICANT_CHECKPOINT_STORE_WAIT" flag:"checkpoint-store-wait" group:"Checkpoint store" default:"10m" description:"How long a store that does not answer is tried before the halt store_unavailable."`
}

// StorePostgres is a table with one row a stream.
type StorePostgres struct {
	DSN   DSN    `yaml:"dsn" env:"REPLICANT_CHECKPOINT_STORE_POSTGRES_DSN" flag:"checkpoint-store-postgres-dsn" group:"Checkpoint store" secret:"true" description:"Keep the position in a table of this database, for a sink that implements HandleTransaction only. The table is made on first use."`
	Table string `yaml:"table" env:"REPLICANT_CHECKPOINT_STORE_POSTGRES_TABLE" flag:"checkpoint-store-postgres-table" group:"Checkpoint store" default:"replicant_checkpoints" description:"Name of that table, without a schema: it is looked for along the search path of the role."`
}

// StoreFile is a directory with one file a stream.
type StoreFile struct {
	Dir string `yaml:"dir" env:"REPLICANT_CHECKPOINT_STORE_FILE_DIR" flag:"checkpoint-store-file-dir" group:"Checkpoint store" description:"Keep the position in a file of this directory instead, which stays on this machine and belongs to one process at a time."`
}

// StoreBatch writes the position once for several transactions.
type StoreBatch struct {
	MaxTransactions int      `yaml:"max_transactions" env:"REPLICANT_CHECKPOINT_STORE_BATCH_MAX_TRANSACTIONS" flag:"checkpoint-store-batch-max-transactions" group:"Checkpoint store" default:"1" description:"Most transactions for one write of the position, and so the most that a crash repeats. 1 = a write after each."`
	MaxDelay        Duration `yaml:"max_delay" env:"REPLICANT_CHECKPOINT_STORE_BATCH_MAX_DELAY" flag:"checkpoint-store-batch-max-delay" group:"Checkpoint store" default:"0s" description:"How long an idle sink waits for such a batch to fill. 0 = it gets at once what is there."`
}

// Admin is the HTTP port for probes, metrics and the status page.
type Admin struct {
	Listen           string   `yaml:"listen" env:"REPLICANT_ADMIN_LISTEN" flag:"admin-listen" group:"Admin" default:"127.0.0.1:9464" description:"host:port of the status page, probes and metrics. Empty = off. There is no password on it: keep it on loopback, or in a network you trust."`
	ProgressDeadline Duration `yaml:"progress_deadline" env:"REPLICANT_ADMIN_PROGRESS_DEADLINE" flag:"admin-progress-deadline" group:"Admin" default:"1m" description:"How long the position may stand still with work waiting before /readyz says not ready."`
	Pprof            bool     `yaml:"pprof" env:"REPLICANT_ADMIN_PPROF" flag:"admin-pprof" group:"Admin" default:"false" description:"Serve Go's profiles under /debug/pprof."`
}

// Log says how to log. Logs go to standard error.
type Log struct {
	Format string `yaml:"format" env:"REPLICANT_LOG_FORMAT" flag:"log-format" group:"Log" default:"auto" enum:"auto,text,json" description:"auto: text on a terminal, JSON elsewhere."`
	Level  string `yaml:"level" env:"REPLICANT_LOG_LEVEL" flag:"log-level" group:"Log" default:"info" enum:"debug,info,warn,error" description:"Least level that is logged."`
}
