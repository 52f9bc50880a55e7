package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/core/pipeline"
)

func TestV01Infinity(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table v01(id int primary key, a timestamp, b timestamptz, c date, d timestamptz[])")
		s.road(way{})
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		c := given{
			run: []string{
				`insert into v01 values (1,'infinity','-infinity','infinity','{"2020-01-01 00:00:00+00",infinity}')`,
				"update v01 set a='-infinity', c=null where id=1",
			},
			want: []string{
				`insert v01 new{id=<1> a=<infinity> b=<-infinity> c=<infinity> d=<{"2020-01-01 00:00:00+00",infinity}>}`, commit,
				`update v01 new{id=<1> a=<-infinity> b=<-infinity> c=null d=<{"2020-01-01 00:00:00+00",infinity}>}`, commit,
			},
		}
		// Intervals are infinite since 17.
		if s.major >= 17 {
			c.run = append(c.run, "create table v01i(id int primary key, i interval)",
				"insert into v01i values (1,'infinity'),(2,'-infinity'),(3,'1 year 2 months 3 days 04:05:06')")
			c.want = append(c.want, "insert v01i new{id=<1> i=<infinity>}", "insert v01i new{id=<2> i=<-infinity>}",
				"insert v01i new{id=<3> i=<1 year 2 mons 3 days 04:05:06>}", commit)
		} else {
			_, err := s.app.try("select 'infinity'::interval")
			require.ErrorContains(s, err, "22007")
		}
		s.run(c)
	})
}

func TestV02FarDates(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v02(id int primary key, a timestamp, b timestamptz, c date)"},
		run: []string{
			`insert into v02 values (1,'0044-03-15 12:00:00 BC','0001-01-01 00:00:00+00','4713-01-01 BC'),
 (2,'294276-12-31 23:59:59.999999','294276-12-31 00:00:00+00','5874897-12-31'),
 (3,'0001-01-01 00:00:00','0001-12-31 23:40:28+00 BC','0001-01-01')`,
		},
		want: []string{
			"insert v02 new{id=<1> a=<0044-03-15 12:00:00 BC> b=<0001-01-01 00:00:00+00> c=<4713-01-01 BC>}",
			"insert v02 new{id=<2> a=<294276-12-31 23:59:59.999999> b=<294276-12-31 00:00:00+00> c=<5874897-12-31>}",
			"insert v02 new{id=<3> a=<0001-01-01 00:00:00> b=<0001-12-31 23:40:28+00 BC> c=<0001-01-01>}",
			commit,
		},
	})
}

func TestV22TimesOfDay(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v22(id int primary key, a timetz, b time)"},
		run: []string{
			`insert into v22 values (1,'24:00:00-15:59:59','24:00:00'),(2,'23:59:59.999999+05:30','00:00'),
 (3,'00:00:00+00','00:00:00.000001')`,
		},
		want: []string{
			"insert v22 new{id=<1> a=<24:00:00-15:59:59> b=<24:00:00>}",
			"insert v22 new{id=<2> a=<23:59:59.999999+05:30> b=<00:00:00>}",
			"insert v22 new{id=<3> a=<00:00:00+00> b=<00:00:00.000001>}",
			commit,
		},
	})
}

func TestV23Zones(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table v23(id int primary key, t timestamptz)")
		// Each road connects while the role and the database have another zone; the last
		// one asks for a zone in its address too.
		s.road(way{role: s.hostile("timezone='UTC'")})
		s.road(way{role: s.hostile("timezone='Asia/Kathmandu'"), route: inProcess})
		s.road(way{role: s.hostile("timezone='Europe/Amsterdam'"), adjust: func(o *pipeline.Options) {
			o.Source.DSN += "&TimeZone=America%2FSt_Johns&DateStyle=German"
		}})
		s.run(given{
			run: []string{
				"insert into v23 values (1,'2026-05-13 22:03:45.423627+00'),(2,'1890-01-01 00:00:00+00'),(3,'2026-05-13 22:03:45+05:45')",
			},
			want: []string{
				"insert v23 new{id=<1> t=<2026-05-13 22:03:45.423627+00>}",
				"insert v23 new{id=<2> t=<1890-01-01 00:00:00+00>}",
				"insert v23 new{id=<3> t=<2026-05-13 16:18:45+00>}",
				commit,
			},
		})
	})
}
