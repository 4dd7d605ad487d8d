package chart

import (
	"fmt"
	"strings"
)

// series is one peer's line.
type series struct {
	peer   string
	points []point // in values
	marked bool    // its points are measurements, worth a mark
}

// tips are what the points say, those of them that are told apart in a table too.
func (l *lineChart) tips(x, y axis) []tip {
	var tips []tip
	for _, s := range l.series {
		for _, p := range s.points {
			if l.tipText == nil {
				continue
			}
			if text := l.tipText(s.peer, p); text != "" {
				tips = append(tips, tip{at: point{x.at(p.x), y.at(p.y)}, radius: 9, text: text})
			}
		}
	}
	return tips
}

// lineChart is lines over a logarithmic x axis.
type lineChart struct {
	title  string
	xTitle string
	yTitle string
	xTicks []float64 // the decades if empty
	xText  func(float64) string
	yText  func(float64) string
	yShare bool // y runs from 0 to 1, not by decades
	series []series

	tipText func(peer string, p point) string // "" where a point has nothing to say
}

func (l *lineChart) draw(width float64, alone bool) string {
	const left, right, plot = 64, 20, 250
	legend := l.legendRows(width)
	top := headHeight(width, l.title, l.yTitle)
	c := &canvas{width: width, height: top + plot + 52 + 22*float64(len(legend))}
	c.heading(l.title, l.yTitle)
	x, y := l.axes(left, width-right, top, top+plot)
	l.grid(c, x, y, width < wide)
	c.text((x.from+x.to)/2, top+plot+40, "middle", "soft", l.xTitle)
	for i := len(l.series) - 1; i >= 0; i-- { // the first is drawn last, on top
		l.drawSeries(c, l.series[i], x, y)
	}
	for i, row := range legend {
		at := float64(left) - 50
		for _, s := range row {
			l.key(c, s, at, top+plot+64+22*float64(i))
			at += keyWidth(s.peer)
		}
	}
	if !alone { // a picture cannot be pointed at
		c.hover(l.tips(x, y))
	}
	return c.finish(l.title, alone)
}

func (l *lineChart) axes(x1, x2, y1, y2 float64) (axis, axis) {
	var xs, ys []float64
	for _, s := range l.series {
		for _, p := range s.points {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	x, y := around(xs, x1, x2), around(ys, y2, y1)
	if len(l.xTicks) > 1 {
		x.min, x.max = l.xTicks[0], l.xTicks[len(l.xTicks)-1]
	}
	if l.yShare {
		y = axis{min: 0, max: 1, from: y2, to: y1}
	}
	return x, y
}

func (l *lineChart) grid(c *canvas, x, y axis, small bool) {
	xTicks, yTicks := l.xTicks, []float64{0, .25, .5, .75, 1}
	if len(xTicks) == 0 {
		most := 8
		if small {
			most = 4
		}
		xTicks = x.decades(most)
	}
	if !l.yShare {
		yTicks = y.decades(7)
	}
	for _, v := range yTicks {
		c.rule(x.from, y.at(v), x.to, y.at(v))
		c.text(x.from-8, y.at(v)+4, "end", "soft", l.yText(v))
	}
	for i, v := range xTicks {
		c.rule(x.at(v), y.from, x.at(v), y.to)
		anchor := "middle"
		if i == len(xTicks)-1 && x.at(v) > x.to-16 {
			anchor = "end"
		}
		c.text(min(x.at(v), x.to+14), y.from+18, anchor, "soft", l.xText(v))
	}
}

func (l *lineChart) drawSeries(c *canvas, s series, x, y axis) {
	var places []point
	for _, p := range s.points {
		places = append(places, point{x.at(p.x), y.at(p.y)})
	}
	look := lookOf(s.peer)
	c.line(places, look)
	if s.marked {
		for _, p := range places {
			c.mark(p, look)
		}
	}
}

func keyWidth(peer string) float64 { return 38 + textWidth(peer) + 14 }

// legendRows breaks the legend into lines that fit.
func (l *lineChart) legendRows(width float64) [][]series {
	var rows [][]series
	left := 0.0
	for _, s := range l.series {
		w := keyWidth(s.peer)
		if left < w {
			rows, left = append(rows, nil), width-28
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], s)
		left -= w
	}
	return rows
}

func (l *lineChart) key(c *canvas, s series, x, y float64) {
	look := lookOf(s.peer)
	c.line([]point{{x, y - 4}, {x + 30, y - 4}}, look)
	if s.marked {
		c.mark(point{x + 15, y - 4}, look)
	}
	c.text(x+36, y, "start", "", s.peer)
}

// short writes 250000 as 250k.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return trim(v/1e6) + "M"
	case v >= 1e3:
		return trim(v/1e3) + "k"
	}
	return trim(v)
}

func trim(v float64) string {
	s := fmt.Sprintf("%.3f", v)
	return strings.TrimRight(strings.TrimRight(s, "0"), ".")
}
