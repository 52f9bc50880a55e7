//go:build failpoints

package failpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// arms is what one process was told.
type arms struct {
	points  map[Point]*armedPoint
	witness *os.File
}

// armedPoint counts the passages of a point. Points that nobody armed are not counted.
type armedPoint struct {
	passed atomic.Int64
	orders []order
}

// order is one action at one passage, or from it on.
type order struct {
	action  string
	release string        // of block
	wait    time.Duration // of delay
	ordinal int64
	onward  bool
}

func (o order) at(ordinal int64) bool {
	return ordinal == o.ordinal || o.onward && ordinal > o.ordinal
}

// parse reads the two variables. The witness is opened here, so that a place that cannot
// be written is found at the start.
func parse(text, witness string) (*arms, error) {
	a := &arms{points: map[Point]*armedPoint{}}
	for entry := range strings.SplitSeq(text, ";") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		if err := a.add(strings.TrimSpace(entry)); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", PointsEnv, entry, err)
		}
	}
	if len(a.points) == 0 {
		return a, nil
	}
	if witness == "" {
		return nil, fmt.Errorf("%s arms points, and %s names no file", PointsEnv, WitnessEnv)
	}
	f, err := os.OpenFile(witness, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_SYNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", WitnessEnv, err)
	}
	a.witness = f
	return a, nil
}

// add takes one point=action[:arg][@ordinal].
func (a *arms) add(entry string) error {
	name, rest, ok := strings.Cut(entry, "=")
	if !ok {
		return errors.New("want point=action[:arg][@ordinal]")
	}
	declaration, err := find(Point(name))
	if err != nil {
		return err
	}
	o := order{ordinal: 1}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if err := o.passage(rest[at+1:]); err != nil {
			return err
		}
		rest = rest[:at]
	}
	if err := o.what(rest, declaration); err != nil {
		return err
	}
	p := a.points[declaration.Point]
	if p == nil {
		p = &armedPoint{}
		a.points[declaration.Point] = p
	}
	for _, other := range p.orders {
		if other.at(o.ordinal) || o.at(other.ordinal) {
			return errors.New("the passage is armed twice")
		}
	}
	p.orders = append(p.orders, o)
	return nil
}

func (o *order) passage(text string) error {
	digits, onward := strings.CutSuffix(text, "+")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || digits[0] == '+' {
		return errors.New("an ordinal is a number from 1 on, or such a number and +")
	}
	o.ordinal, o.onward = n, onward
	return nil
}

func (o *order) what(text string, d Declaration) (err error) {
	var arg string
	var with bool
	o.action, arg, with = strings.Cut(text, ":")
	switch o.action {
	case "kill", "error":
		if with {
			return fmt.Errorf("%s takes no argument", o.action)
		}
		if o.action == "error" && !d.Fails {
			return errors.New("this point cannot return an error")
		}
	case "block":
		if !filepath.IsAbs(arg) {
			return errors.New("block needs the absolute path of its release file")
		}
		o.release = arg
	case "delay":
		if o.wait, err = time.ParseDuration(arg); err != nil || o.wait <= 0 {
			return errors.New("delay needs a duration above zero")
		}
	default:
		return errors.New("the actions are kill, block:FILE, delay:DURATION and error")
	}
	return nil
}

func find(p Point) (Declaration, error) {
	for _, d := range declared {
		if d.Point == p {
			return d, nil
		}
	}
	return Declaration{}, fmt.Errorf("there is no point %q", string(p))
}
