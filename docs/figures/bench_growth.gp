# How circe's time grows. Block k of bench_growth.dat is panel k; gnuplot bench_growth.gp in its folder draws it again.
set terminal svg noenhanced size 960,720 font "sans-serif,13" background "white"
set output "bench_growth.svg"
set multiplot layout 2,2 margins 0.09,0.96,0.10,0.94 spacing 0.13,0.18
set logscale xy
set grid xtics ytics linecolor rgb "#dddddd"
set format x "%.0f"
set key top left samplen 2
set style line 1 linecolor rgb "#1f5fa8" linewidth 2 pointtype 7 pointsize 0.6
set style line 2 linecolor rgb "#c04f15" linewidth 2 pointtype 5 pointsize 0.6
set style line 9 linecolor rgb "#999999" linewidth 1 dashtype 2
set ylabel "milliseconds" offset 1,0
data = "bench_growth.dat"

# A guide of the exponent that theory gives, through the last point.
guide(x, p, x0, y0) = y0 * (x / x0) ** p

stats data index 0 using 1:2 nooutput
bx = STATS_max_x; by = STATS_max_y
set title "batch B (cached, d_x = 1)"
set xlabel "B"
plot data index 0 using 1:2 with linespoints linestyle 1 title "loss + gradient", \
     guide(x, 2, bx, by) linestyle 9 title "B^2"

stats data index 2 using 1:2 nooutput
mx = STATS_max_x; my = STATS_max_y
set title "holdout M (B = 1024, d_x = 1)"
set xlabel "M"
plot data index 1 using 1:2 with linespoints linestyle 1 title "loss + gradient, raw", \
     data index 2 using 1:2 with linespoints linestyle 2 title "fit, 4 x 5 grid", \
     guide(x, 1, mx, my) linestyle 9 title "M"

stats data index 3 using 1:2 nooutput
dx = STATS_max_x; dy = STATS_max_y
set title "dimension d_x (B = 1024, cached)"
set xlabel "d_x"
plot data index 3 using 1:2 with linespoints linestyle 1 title "loss + gradient", \
     guide(x, 1, dx, dy) linestyle 9 title "d_x"

stats data index 4 using 1:2 nooutput
rx = STATS_max_x; ry = STATS_max_y
set title "rank of K_ZZ (B = 1024, cached, d_x = 1)"
set xlabel "rank"
plot data index 4 using 1:2 with linespoints linestyle 1 title "loss + gradient", \
     guide(x, 1, rx, ry) linestyle 9 title "rank"
unset multiplot
