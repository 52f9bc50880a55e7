package core

// Every halt and start error. haltTexts must explain each; a test compares the two.
const (
	// Configuration and capabilities: found before the slot is touched.
	HaltConfigInvalid        HaltCode = "config_invalid"
	HaltInvalidIdentifier    HaltCode = "invalid_identifier"
	HaltInvalidSink          HaltCode = "invalid_sink"
	HaltBatchUnsupported     HaltCode = "batch_unsupported"
	HaltMessagesUnsupported  HaltCode = "messages_unsupported"
	HaltSnapshotUnsupported  HaltCode = "snapshot_unsupported"
	HaltTwoPhaseUnsupported  HaltCode = "two_phase_unsupported"
	HaltFencingRequired      HaltCode = "fencing_required"
	HaltGoForwardRequired    HaltCode = "go_forward_required"
	HaltConflictingStartMode HaltCode = "conflicting_start_mode"

	// The source: server, role, publication.
	HaltWALLevel            HaltCode = "wal_level"
	HaltServerUnsupported   HaltCode = "server_unsupported"
	HaltSourceRights        HaltCode = "source_rights"
	HaltSourcePooler        HaltCode = "source_pooler"
	HaltSourceRefused       HaltCode = "source_refused"
	HaltPublicationMissing  HaltCode = "publication_missing"
	HaltPublicationConflict HaltCode = "publication_conflict"
	HaltSlotsExhausted      HaltCode = "slots_exhausted"

	// The slot and the position.
	HaltSlotPlugin           HaltCode = "slot_plugin"
	HaltSlotDatabase         HaltCode = "slot_database"
	HaltSlotTwoPhase         HaltCode = "slot_two_phase"
	HaltSlotSynced           HaltCode = "slot_synced_unpromoted"
	HaltSlotInvalidated      HaltCode = "slot_invalidated"
	HaltSlotMissing          HaltCode = "data_gap.slot_missing"
	HaltSlotAhead            HaltCode = "slot_ahead"
	HaltSourceBehind         HaltCode = "source_behind"
	HaltTimelineChanged      HaltCode = "source_timeline_changed"
	HaltSourceMismatch       HaltCode = "source_mismatch"
	HaltCheckpointMissing    HaltCode = "checkpoint_missing"
	HaltCheckpointUnreadable HaltCode = "checkpoint_unreadable"
	HaltStoreUnavailable     HaltCode = "store_unavailable"
	HaltStoreInvalid         HaltCode = "store_invalid"
	HaltStoreRegress         HaltCode = "store_regress"
	HaltSnapshotIncomplete   HaltCode = "snapshot_incomplete"
	HaltSnapshotLimit        HaltCode = "snapshot_limit"
	HaltProgressInvalid      HaltCode = "progress_invalid"

	// The stream.
	HaltMalformedStream     HaltCode = "malformed_stream"
	HaltUnsupportedMessage  HaltCode = "unsupported_message"
	HaltBadFraming          HaltCode = "bad_framing"
	HaltUnknownRelation     HaltCode = "unknown_relation"
	HaltSchemaDestructive   HaltCode = "schema_change_destructive"
	HaltSchemaRefused       HaltCode = "schema_change_refused"
	HaltValueTooLarge       HaltCode = "value_too_large"
	HaltTransactionTooLarge HaltCode = "transaction_too_large"
	HaltSpillExhausted      HaltCode = "spill_exhausted"
	HaltSpillFailed         HaltCode = "spill_failed"

	// The sink.
	HaltSinkContract         HaltCode = "sink_contract"
	HaltSinkRejected         HaltCode = "sink_rejected"
	HaltSinkFailed           HaltCode = "sink_failed"
	HaltSinkUnknown          HaltCode = "sink_outcome_unknown"
	HaltSinkReplaced         HaltCode = "sink_replaced"
	HaltSinkUnavailable      HaltCode = "sink_unavailable"
	HaltSinkUnauthorized     HaltCode = "sink_unauthorized"
	HaltCapabilityLost       HaltCode = "capability_lost"
	HaltIdentityRejected     HaltCode = "identity_rejected"
	HaltOriginRejected       HaltCode = "origin_rejected"
	HaltValueUnrepresentable HaltCode = "value_unrepresentable"
	HaltFenced               HaltCode = "fenced"

	// Ourselves.
	HaltInvariant HaltCode = "invariant_broken"
	HaltPanic     HaltCode = "panic"
)
