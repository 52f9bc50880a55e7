package pgembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// ready waits until the server answers a query, its process ends, or ctx does.
func (s *Server) ready(ctx context.Context, c *child) error {
	conf, err := pgx.ParseConfig(s.DSN("postgres"))
	if err != nil {
		return err
	}
	for {
		err := ping(ctx, conf)
		if err == nil {
			return nil
		}
		select {
		case <-c.done:
			if c.err == nil {
				return errors.New("it ended")
			}
			return fmt.Errorf("it ended: %w", c.err)
		case <-ctx.Done():
			return fmt.Errorf("%w, last answer: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ping(ctx context.Context, conf *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, conf.Copy())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, "SELECT 1")
	return err
}

// tail returns the last lines that the log got since from. At a start these
// are the server's own messages; no client has spoken yet.
func tail(path string, from int64) []byte {
	text, err := os.ReadFile(path)
	if err != nil || int64(len(text)) < from {
		return nil
	}
	text = text[from:]
	const most = 4096
	if len(text) > most {
		text = text[len(text)-most:]
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			text = text[i+1:]
		}
	}
	return text
}
