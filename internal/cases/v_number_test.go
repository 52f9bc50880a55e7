package cases_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestV03NumbersThatAreNone(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v03(id int primary key, n numeric, f float8, r float4)"},
		run: []string{
			"insert into v03 values (1,'NaN','NaN','NaN'),(2,'Infinity','-Infinity','Infinity'),(3,null,null,null)",
		},
		want: []string{
			"insert v03 new{id=<1> n=<NaN> f=<NaN> r=<NaN>}",
			"insert v03 new{id=<2> n=<Infinity> f=<-Infinity> r=<Infinity>}",
			"insert v03 new{id=<3> n=null f=null r=null}",
			commit,
		},
	})
}

func TestV04NumericDigits(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v04(id int primary key, n numeric, m numeric(38,10))"},
		run: []string{
			`insert into v04 values (1,repeat('9',300)::numeric,0),(2,'1e-200'::numeric,-1234567890.1234567890),
 (3,1.10000000000000000000000000000,0.0000000001),(4,'-0'::numeric,0),(5,'1e131071'::numeric,1)`,
		},
		want: []string{
			"insert v04 new{id=<1> n=<99999999.. 300> m=<0.0000000000>}",
			"insert v04 new{id=<2> n=<0.000000.. 202> m=<-1234567890.1234567890>}",
			"insert v04 new{id=<3> n=<1.10000000000000000000000000000> m=<0.0000000001>}",
			"insert v04 new{id=<4> n=<0> m=<0.0000000000>}",
			"insert v04 new{id=<5> n=<10000000.. 131072> m=<1.0000000000>}",
			commit,
		},
		also: func(r *road) {
			require.Equal(r, strings.Repeat("9", 300), r.text(0, 0, "n"))
			require.Equal(r, "0."+strings.Repeat("0", 199)+"1", r.text(0, 1, "n"))
			require.Equal(r, "1"+strings.Repeat("0", 131071), r.text(0, 4, "n"))
		},
	})
}

func TestV05FloatDigits(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v05(id int primary key, f float8, r float4)"},
		run: []string{
			`insert into v05 values (1,-216237.00000035969,0.1),(2,0.1::float8+0.2,16777217),(3,5e-324,1e-45),(4,'-0','-0'),
 (5,1.7976931348623157e308,3.4028235e38)`,
		},
		want: []string{
			"insert v05 new{id=<1> f=<-216237.0000003597> r=<0.1>}",
			"insert v05 new{id=<2> f=<0.30000000000000004> r=<1.6777216e+07>}",
			"insert v05 new{id=<3> f=<5e-324> r=<1e-45>}",
			"insert v05 new{id=<4> f=<-0> r=<-0>}",
			"insert v05 new{id=<5> f=<1.7976931348623157e+308> r=<3.4028235e+38>}",
			commit,
		},
		also: func(r *road) {
			zero := 0.0
			for i, want := range []float64{-216237.00000035969, 0.30000000000000004, 5e-324, math.Copysign(zero, -1), math.MaxFloat64} {
				got, err := strconv.ParseFloat(r.text(0, i, "f"), 64)
				require.NoError(r, err)
				require.Equal(r, math.Float64bits(want), math.Float64bits(got))
			}
			for i, want := range []float32{0.1, 16777216, 1e-45, float32(math.Copysign(zero, -1)), math.MaxFloat32} {
				got, err := strconv.ParseFloat(r.text(0, i, "r"), 32)
				require.NoError(r, err)
				require.Equal(r, math.Float32bits(want), math.Float32bits(float32(got)))
			}
		},
	})
}

// otherLocales print money in another way than C. Which are there depends on the
// machine.
var otherLocales = []string{"de_DE.UTF-8", "de_DE.utf8", "en_US.UTF-8", "en_US.utf8", "nl_NL.UTF-8", "nl_NL.utf8"}

func TestV06Money(t *testing.T) {
	each(t, func(s *scene) {
		s.sql("create table v06(id int primary key, m money)")
		locale := ""
		for _, name := range otherLocales {
			_, err := s.app.try("alter database " + quoted(s.db.Name) + " set lc_monetary=" + literal(name))
			if err == nil {
				locale = name
				require.Equal(s, name, s.session("postgres", nil).one("show lc_monetary"))
				break
			}
			require.ErrorContains(s, err, `invalid value for parameter "lc_monetary"`)
		}
		s.Logf("lc_monetary of the database is %q; empty: this machine has no other locale than C", locale)
		s.road(way{})
		s.road(way{route: inProcess, role: s.hostile(hostileSettings...)})
		s.run(given{
			run: []string{
				"insert into v06 values (1,'-92233720368547758.08'),(2,'92233720368547758.07'),(3,'1234.5'),(4,null),(5,'-0.01')",
			},
			want: []string{
				"insert v06 new{id=<1> m=<-$92,233,720,368,547,758.08>}",
				"insert v06 new{id=<2> m=<$92,233,720,368,547,758.07>}",
				"insert v06 new{id=<3> m=<$1,234.50>}",
				"insert v06 new{id=<4> m=null}",
				"insert v06 new{id=<5> m=<-$0.01>}",
				commit,
			},
		})
	})
}

func TestV20Bits(t *testing.T) {
	deliver(t, given{
		setup: []string{"create table v20(id int primary key, a bit(10), b varbit, c bit(1))"},
		run:   []string{"insert into v20 values (1,'1010101010','101','1'),(2,'0000000000','','0'),(3,null,null,null)"},
		want: []string{
			"insert v20 new{id=<1> a=<1010101010> b=<101> c=<1>}",
			"insert v20 new{id=<2> a=<0000000000> b=<> c=<0>}",
			"insert v20 new{id=<3> a=null b=null c=null}",
			commit,
		},
	})
}
