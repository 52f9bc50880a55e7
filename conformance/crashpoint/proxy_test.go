package crashpoint

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/replicant-sidecar/replicant-sidecar/conformance"
)

// database keeps what it is told line by line: "set KEY VALUE KEY VALUE" at once.
type database struct {
	mu   sync.Mutex
	kept map[string]string
	net.Listener
}

func newDatabase(t *testing.T) *database {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := &database{kept: map[string]string{}, Listener: l}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var sessions sync.WaitGroup
		defer sessions.Wait()
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			sessions.Add(1)
			go func() {
				defer sessions.Done()
				defer conn.Close()
				d.session(conn)
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return d
}

func (d *database) session(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		d.mu.Lock()
		for i := 0; i+1 < len(words); i += 2 {
			d.kept[words[i]] = words[i+1]
		}
		d.mu.Unlock()
		fmt.Fprintln(conn, "ok")
	}
}

func (d *database) get(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept[key]
}

// client is a sink of that database, in this process. It is no process to kill.
type client struct{ address string }

func (client) Address() string             { return "" }
func (client) Output() string              { return "" }
func (client) Start(context.Context) error { return nil }
func (client) Kill(context.Context) error  { return conformance.ErrNoLifecycle }
func (client) Stop(context.Context) error  { return conformance.ErrNoLifecycle }

func (c client) tell(lines ...string) error {
	conn, err := net.Dial("tcp", c.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for _, line := range lines {
		if _, err := fmt.Fprintln(conn, line); err != nil {
			return err
		}
		if _, err := answers.ReadString('\n'); err != nil {
			return err
		}
	}
	return nil
}

func proxied(t *testing.T) (*database, *Proxy, client) {
	d := newDatabase(t)
	p, err := Listen("127.0.0.1:0", d.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	c := client{p.Addr()}
	p.Watch(c)
	return d, p, c
}

func (d *database) plan(c client, lines func(n int) []string) conformance.CrashPlan {
	return conformance.CrashPlan{
		Label:   "two keys",
		Prepare: func(_ context.Context, n int) error { return c.tell(fmt.Sprintf("row before%d pos before%d", n, n)) },
		Act:     func(_ context.Context, n int) error { return c.tell(lines(n)...) },
		Judge: func(_ context.Context, n int) (conformance.CrashSide, string, error) {
			row, pos := d.get("row"), d.get("pos")
			switch {
			case strings.TrimPrefix(row, "before") != strings.TrimPrefix(pos, "before"):
				return conformance.Torn, row + " at " + pos, nil
			case strings.HasPrefix(row, "before"):
				return conformance.Before, "", nil
			}
			return conformance.After, "", nil
		},
	}
}

func TestACutLosesTheAnswerAndNotWhatWasSent(t *testing.T) {
	d, p, c := proxied(t)
	m, err := p.Visit(context.Background(), d.plan(c, func(n int) []string {
		return []string{"hello there", fmt.Sprintf("row after%d pos after%d", n, n), "good bye"}
	}))
	require.NoError(t, err)
	require.Equal(t, "proxy", m.Engine)
	var sides []conformance.CrashSide
	for _, point := range m.Points {
		sides = append(sides, point.Side)
	}
	want := []conformance.CrashSide{conformance.Before, conformance.After, conformance.After, conformance.Survived}
	require.Equal(t, want, sides)
	require.Equal(t, "after 12 bytes", m.Points[0].Call)
}

func TestACutBetweenTwoCommitsIsTorn(t *testing.T) {
	d, p, c := proxied(t)
	m, err := p.Visit(context.Background(), d.plan(c, func(n int) []string {
		return []string{fmt.Sprintf("row after%d", n), fmt.Sprintf("pos after%d", n)}
	}))
	require.NoError(t, err)
	require.Equal(t, conformance.Torn, m.Points[len(m.Points)-1].Side)
}

func TestADatabaseThatIsAwayComesBack(t *testing.T) {
	d, p, c := proxied(t)
	require.NoError(t, c.tell("a 1"))
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintln(conn, "b 2")
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	p.Shut()
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, io.EOF) // lost, and not ended
	require.Error(t, c.tell("c 3"))
	p.Open()
	require.NoError(t, c.tell("d 4"))
	require.Equal(t, []string{"1", "2", "", "4"}, []string{d.get("a"), d.get("b"), d.get("c"), d.get("d")})
}

func TestACallThatNeverReachesTheDatabaseIsAnError(t *testing.T) {
	d, p, c := proxied(t)
	_, err := p.Visit(context.Background(), d.plan(c, func(int) []string { return nil }))
	require.ErrorContains(t, err, "reached no point")
}
