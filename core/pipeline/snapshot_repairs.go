package pipeline

import (
	"github.com/replicant-sidecar/replicant-sidecar/core"
	"github.com/replicant-sidecar/replicant-sidecar/core/snapshot/incremental"
)

// repeats reports that a transaction may be sent once more in place, where nobody knows whether
// the sink has done it. One that leaves a row without a column, done twice, is sent again by
// the next session, which notes the keys to repair before it.
func (c *libCourier) repeats(tx *core.Transaction) bool {
	return !c.repairs || !incremental.Opens(tx.Changes)
}

// listed takes what the look at the publications has come to. Where nothing is copied, tables
// that cannot be read are told of and are no reason to halt: their rows are read again only
// if a change is delivered twice.
func (l *loop) listed(err error, f foundJob) error {
	switch {
	case !f.job.Partly:
		return err
	case err == nil:
		err = f.result.Left
	}
	if err != nil {
		l.session.pipeline.log.Warn("a change that is delivered twice can leave rows of some tables without a column", "reason", err.Error())
	}
	return nil
}
