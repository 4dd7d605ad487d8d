// Package chart draws a run of the bench: SVG charts and a self-contained HTML page, both without JavaScript and for
// light and dark.
package chart

import (
	_ "embed"
	"fmt"
	"html"
	"math"
	"strings"
)

//go:embed style.css
var styleCSS string

// Widths in which every chart is drawn.
const (
	wide   = 600
	narrow = 360
)

// look is how a peer is drawn everywhere.
type look struct {
	color  string // a custom property of style.css
	dashed bool
	strong bool
	shape  string
}

func lookOf(peer string) look {
	looks := map[string]look{
		"relock":         {"relock", false, true, "circle"},
		"relock-remote":  {"relock", true, true, "circle"},
		"relock-goredis": {"relock", true, true, "square"},
		"relock-valkey":  {"relock", true, true, "diamond"},
		"redsync":        {"redsync", false, false, "square"},
		"redislock":      {"redislock", false, false, "diamond"},
		"rueidislock":    {"rueidislock", false, false, "up"},
		"spin":           {"spin", false, false, "down"},
		"retry":          {"retry", true, false, "square"},
		"etcd":           {"etcd", false, false, "diamond"},
		"redisson":       {"redisson", false, false, "up"},
		"redisson-fair":  {"redisson", true, false, "down"},
		"relock-cached":  {"cached", false, true, "diamond"},
		"relock-linger":  {"cached", true, true, "diamond"},
	}
	if l, ok := looks[peer]; ok {
		return l
	}
	return look{"other", true, false, "circle"}
}

// canvas is an SVG being written.
type canvas struct {
	b             strings.Builder
	width, height float64
}

// tip is what is shown over a place while the pointer is there.
type tip struct {
	at     point
	radius float64 // of the place around at; 0: a bar of width and height from at
	width  float64
	height float64
	text   string
}

// hover puts tips over what was drawn: all of them last, so that nothing is painted over one. They need no script.
func (c *canvas) hover(tips []tip) {
	for _, t := range tips {
		w, x, y := textWidth(t.text)+16, t.at.x, t.at.y-38
		c.b.WriteString(`<g class="tip">`)
		if t.radius > 0 {
			fmt.Fprintf(&c.b, `<circle class="hit" cx="%.1f" cy="%.1f" r="%.1f"/>`, x, t.at.y, t.radius)
			fmt.Fprintf(&c.b, `<circle class="spot" cx="%.1f" cy="%.1f" r="6"/>`, x, t.at.y)
		} else {
			fmt.Fprintf(&c.b, `<rect class="hit" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`,
				x, t.at.y, t.width, t.height)
			x, y = x+t.width/2, t.at.y-30
		}
		x = math.Max(2, math.Min(x-w/2, c.width-w-2)) // within the chart
		y = math.Max(2, y)
		fmt.Fprintf(&c.b, `<g class="note"><rect x="%.1f" y="%.1f" width="%.1f" height="26" rx="5"/>`, x, y, w)
		c.text(x+w/2, y+17.5, "middle", "", t.text)
		c.b.WriteString("</g></g>")
	}
}

// finish returns the SVG. alone gives it a style of its own, for a file; within a page the page has it.
func (c *canvas) finish(title string, alone bool) string {
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 %.0f %.0f" role="img" `+
		`aria-label="%s">`, c.width, c.height, html.EscapeString(title))
	if alone {
		fmt.Fprintf(&s, "<style>%s</style>", styleCSS)
	}
	fmt.Fprintf(&s, `<rect class="paper" width="%.0f" height="%.0f"/>`, c.width, c.height)
	s.WriteString(c.b.String())
	s.WriteString("</svg>\n")
	return s.String()
}

// text writes s with its anchor (start, middle, end) at x, y.
func (c *canvas) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`,
		x, y, anchor, class, html.EscapeString(s))
}

func (c *canvas) rule(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.b, `<line class="grid" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`, x1, y1, x2, y2)
}

func (c *canvas) bar(x, y, w, h float64, l look) {
	opacity := 1.0
	if l.dashed {
		opacity = 0.55
	}
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="2" style="fill:var(--%s)" `+
		`fill-opacity="%.2f"/>`, x, y, math.Max(w, 1), h, l.color, opacity)
}

type point struct{ x, y float64 }

func (c *canvas) line(points []point, l look) {
	class := "line"
	if l.strong {
		class += " strong"
	}
	if l.dashed {
		class += " dash"
	}
	var path strings.Builder
	for i, p := range points {
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, p.x, p.y)
	}
	fmt.Fprintf(&c.b, `<path class="%s" style="stroke:var(--%s)" d="%s"/>`, class, l.color, path.String())
}

// mark draws a peer's shape, so that colour is not all that tells peers apart.
func (c *canvas) mark(p point, l look) {
	style := fmt.Sprintf(`style="fill:var(--%s);stroke:var(--paper);stroke-width:1"`, l.color)
	const r = 4.5
	polygon := func(corners ...float64) {
		var s strings.Builder
		for i := 0; i < len(corners); i += 2 {
			fmt.Fprintf(&s, "%.1f,%.1f ", p.x+r*corners[i], p.y+r*corners[i+1])
		}
		fmt.Fprintf(&c.b, `<polygon %s points="%s"/>`, style, strings.TrimSpace(s.String()))
	}
	switch l.shape {
	case "square":
		polygon(-.9, -.9, .9, -.9, .9, .9, -.9, .9)
	case "diamond":
		polygon(0, -1.2, 1.2, 0, 0, 1.2, -1.2, 0)
	case "up":
		polygon(0, -1.2, 1.1, .9, -1.1, .9)
	case "down":
		polygon(0, 1.2, 1.1, -.9, -1.1, -.9)
	default:
		fmt.Fprintf(&c.b, `<circle %s cx="%.1f" cy="%.1f" r="%.1f"/>`, style, p.x, p.y, r)
	}
}

const (
	titleLetter = 8.8 // about the width of one in a title
	noteLetter  = 7.2
	headLine    = 19
)

// heading writes a chart's title and what it shows, in as many lines as they need, and returns where they end.
func (c *canvas) heading(title, note string) float64 {
	y := 24.0
	for _, part := range []struct {
		text, class string
		letter      float64
	}{{title, "title", titleLetter}, {note, "soft", noteLetter}} {
		for _, line := range wrap(part.text, int((c.width-20)/part.letter)) {
			c.text(14, y, "start", part.class, line)
			y += headLine
		}
	}
	return y
}

// headHeight is what heading returns.
func headHeight(width float64, title, note string) float64 {
	return (&canvas{width: width}).heading(title, note)
}

// wrap breaks s between words into lines of at most n letters.
func wrap(s string, n int) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		last := len(lines) - 1
		if last >= 0 && len([]rune(lines[last]))+1+len([]rune(word)) <= n {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}

// textWidth is about how wide s is drawn.
func textWidth(s string) float64 { return 7.4 * float64(len([]rune(s))) }

// axis maps values to places, by their logarithm if log.
type axis struct {
	min, max float64 // values
	from, to float64 // places
	log      bool
}

func (a axis) at(v float64) float64 {
	lo, hi := a.min, a.max
	if a.log {
		v, lo, hi = math.Log10(math.Max(v, a.min)), math.Log10(lo), math.Log10(hi)
	}
	return a.from + (a.to-a.from)*(v-lo)/(hi-lo)
}

// decades are the powers of ten within the axis, thinned out to at most n.
func (a axis) decades(n int) []float64 {
	lo, hi := int(math.Ceil(math.Log10(a.min)-1e-9)), int(math.Floor(math.Log10(a.max)+1e-9))
	step := max(1, (hi-lo+n)/n)
	var ticks []float64
	for e := lo; e <= hi; e += step {
		ticks = append(ticks, math.Pow(10, float64(e)))
	}
	return ticks
}

// around returns an axis over whole decades that holds all values.
func around(values []float64, from, to float64) axis {
	lo, hi := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	if hi == 0 {
		lo, hi = 1, 10
	}
	lo, hi = math.Pow(10, math.Floor(math.Log10(lo))), math.Pow(10, math.Ceil(math.Log10(hi)))
	if lo == hi {
		hi *= 10
	}
	return axis{min: lo, max: hi, from: from, to: to, log: true}
}
