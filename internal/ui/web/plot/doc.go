// Package plot draws the plots of the pages as SVG. All functions are pure: columns in, markup out. They escape every
// text. The markup has classes and no inline style, so the style sheet has all colours, and a strict content security
// policy allows it.
//
// A plot with text is two SVG elements. The outer one has no viewBox: x is in percent and y in pixels, so that text never
// stretches. The inner one holds the shapes, with one unit for each column and ten for each pixel of height.
package plot
