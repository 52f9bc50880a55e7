package cases_test

import (
	"strings"
	"sync"

	"github.com/stretchr/testify/require"
)

// hostileSettings make Postgres print nearly every value another way than pinned.
var hostileSettings = []string{
	"extra_float_digits=0", "datestyle='SQL, DMY'", "intervalstyle='iso_8601'", "timezone='Asia/Kathmandu'",
	"bytea_output='escape'", "client_encoding='LATIN1'", "quote_all_identifiers=on",
}

var makingRole sync.Mutex

// makeHostileRole lets one case at a time try: CREATE ROLE knows no IF NOT EXISTS, and
// an advisory lock is its database's alone.
func (s *scene) makeHostileRole() {
	s.Helper()
	makingRole.Lock()
	defer makingRole.Unlock()
	s.sql("do $$ begin if not exists (select from pg_roles where rolname='hostile') then create role hostile login replication; end if; end $$")
}

// hostileRole may stream and look, and owns nothing.
const hostileRole = "hostile"

// hostile makes the role, once a server, and gives it settings in this scene's database,
// where they also hold for every other role.
func (s *scene) hostile(settings ...string) string {
	s.Helper()
	s.makeHostileRole()
	s.sql("grant select on all tables in schema public to hostile")
	for _, setting := range settings {
		s.sql("alter role hostile in database "+quoted(s.db.Name)+" set "+setting,
			"alter database "+quoted(s.db.Name)+" set "+setting)
	}
	// The settings are in force for whoever does not pin them.
	look := s.session(hostileRole, nil)
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		require.Equal(s, strings.Trim(value, "'"), look.one("show "+name))
	}
	return hostileRole
}
