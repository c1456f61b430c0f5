# Draws dsprites_nonlinear_full.svg from dsprites_nonlinear_full.dat. To draw it again: gnuplot dsprites_nonlinear_full.gp
if (!exists("output")) output = 'dsprites_nonlinear_full.svg'
set terminal svg size 840,712 dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'
set output output
set encoding utf8
set border 3
set tics nomirror out scale 0.6
set grid lt 1 lw 0.5 lc rgb '#d9d9d9'
unset key
set multiplot

set origin 0, 0.536517
set size 0.5, 0.463483
set title 'dsprites, nonlinear: gcm'
set xlabel 'gamma'
set logscale x
set xrange [0.00794328235:1.25892541]
set xtics ('' 0.008 1, '' 0.009 1, '0.01' 0.01, '0.02' 0.02, '' 0.03 1, '' 0.04 1, '0.05' 0.05, '' 0.06 1, '' 0.07 1, '' 0.08 1, '' 0.09 1, '0.1' 0.1, '0.2' 0.2, '' 0.3 1, '' 0.4 1, '0.5' 0.5, '' 0.6 1, '' 0.7 1, '' 0.8 1, '' 0.9 1, '1' 1)
set ylabel 'test loss'
set logscale y
set yrange [0.00164629757:6.55227106]
set ytics ('' 0.002 1, '' 0.003 1, '' 0.004 1, '' 0.005 1, '' 0.006 1, '' 0.007 1, '' 0.008 1, '' 0.009 1, '0.01' 0.01, '' 0.02 1, '' 0.03 1, '' 0.04 1, '' 0.05 1, '' 0.06 1, '' 0.07 1, '' 0.08 1, '' 0.09 1, '0.1' 0.1, '' 0.2 1, '' 0.3 1, '' 0.4 1, '' 0.5 1, '' 0.6 1, '' 0.7 1, '' 0.8 1, '' 0.9 1, '1' 1, '' 2 1, '' 3 1, '' 4 1, '' 5 1, '' 6 1)
plot 'dsprites_nonlinear_full.dat' index 0 using 1:3:4 with filledcurves lc rgb '#0072b2' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 1 using 1:3:4 with filledcurves lc rgb '#e69f00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 2 using 1:3:4 with filledcurves lc rgb '#d55e00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 3 using 1:3:4 with filledcurves lc rgb '#808080' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 0 using 1:2 with linespoints lc rgb '#0072b2' lw 2 dt 1 pt 7 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 1 using 1:2 with linespoints lc rgb '#e69f00' lw 2 dt 1 pt 11 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 2 using 1:2 with lines lc rgb '#d55e00' lw 2 dt 1 notitle, \
     'dsprites_nonlinear_full.dat' index 3 using 1:2 with lines lc rgb '#808080' lw 2 dt 2 notitle, \
     NaN notitle

set origin 0.5, 0.536517
set size 0.5, 0.463483
set title 'dsprites, nonlinear: hscic'
set xlabel 'gamma'
set logscale x
set xrange [0.707945784:1412.53754]
set xtics ('' 0.8 1, '' 0.9 1, '1' 1, '' 2 1, '' 3 1, '' 4 1, '' 5 1, '' 6 1, '' 7 1, '' 8 1, '' 9 1, '10' 10, '' 20 1, '' 30 1, '' 40 1, '' 50 1, '' 60 1, '' 70 1, '' 80 1, '' 90 1, '100' 100, '' 200 1, '' 300 1, '' 400 1, '' 500 1, '' 600 1, '' 700 1, '' 800 1, '' 900 1, '1000' 1000)
set ylabel 'test loss'
set logscale y
set yrange [0.00164629757:6.55227106]
set ytics ('' 0.002 1, '' 0.003 1, '' 0.004 1, '' 0.005 1, '' 0.006 1, '' 0.007 1, '' 0.008 1, '' 0.009 1, '0.01' 0.01, '' 0.02 1, '' 0.03 1, '' 0.04 1, '' 0.05 1, '' 0.06 1, '' 0.07 1, '' 0.08 1, '' 0.09 1, '0.1' 0.1, '' 0.2 1, '' 0.3 1, '' 0.4 1, '' 0.5 1, '' 0.6 1, '' 0.7 1, '' 0.8 1, '' 0.9 1, '1' 1, '' 2 1, '' 3 1, '' 4 1, '' 5 1, '' 6 1)
plot 'dsprites_nonlinear_full.dat' index 4 using 1:3:4 with filledcurves lc rgb '#0072b2' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 5 using 1:3:4 with filledcurves lc rgb '#e69f00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 6 using 1:3:4 with filledcurves lc rgb '#d55e00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 7 using 1:3:4 with filledcurves lc rgb '#808080' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 4 using 1:2 with linespoints lc rgb '#0072b2' lw 2 dt 1 pt 7 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 5 using 1:2 with linespoints lc rgb '#e69f00' lw 2 dt 1 pt 11 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 6 using 1:2 with lines lc rgb '#d55e00' lw 2 dt 1 notitle, \
     'dsprites_nonlinear_full.dat' index 7 using 1:2 with lines lc rgb '#808080' lw 2 dt 2 notitle, \
     NaN notitle

set origin 0, 0.0730337
set size 0.5, 0.463483
set title 'dsprites, nonlinear: circe'
set xlabel 'gamma'
set logscale x
set xrange [89.1250938:1122.01845]
set xtics ('' 90 1, '100' 100, '200' 200, '' 300 1, '' 400 1, '500' 500, '' 600 1, '' 700 1, '' 800 1, '' 900 1, '1000' 1000)
set ylabel 'test loss'
set logscale y
set yrange [0.00164629757:6.55227106]
set ytics ('' 0.002 1, '' 0.003 1, '' 0.004 1, '' 0.005 1, '' 0.006 1, '' 0.007 1, '' 0.008 1, '' 0.009 1, '0.01' 0.01, '' 0.02 1, '' 0.03 1, '' 0.04 1, '' 0.05 1, '' 0.06 1, '' 0.07 1, '' 0.08 1, '' 0.09 1, '0.1' 0.1, '' 0.2 1, '' 0.3 1, '' 0.4 1, '' 0.5 1, '' 0.6 1, '' 0.7 1, '' 0.8 1, '' 0.9 1, '1' 1, '' 2 1, '' 3 1, '' 4 1, '' 5 1, '' 6 1)
plot 'dsprites_nonlinear_full.dat' index 8 using 1:3:4 with filledcurves lc rgb '#0072b2' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 9 using 1:3:4 with filledcurves lc rgb '#e69f00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 10 using 1:3:4 with filledcurves lc rgb '#d55e00' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 11 using 1:3:4 with filledcurves lc rgb '#808080' fs transparent solid 0.18 noborder notitle, \
     'dsprites_nonlinear_full.dat' index 8 using 1:2 with linespoints lc rgb '#0072b2' lw 2 dt 1 pt 7 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 9 using 1:2 with linespoints lc rgb '#e69f00' lw 2 dt 1 pt 11 ps 0.8 notitle, \
     'dsprites_nonlinear_full.dat' index 10 using 1:2 with lines lc rgb '#d55e00' lw 2 dt 1 notitle, \
     'dsprites_nonlinear_full.dat' index 11 using 1:2 with lines lc rgb '#808080' lw 2 dt 2 notitle, \
     NaN notitle

# the legend
set origin 0, 0
set size 1, 0.0730337
unset title
unset xlabel
unset ylabel
unset logscale
unset border
unset tics
unset grid
set lmargin 0
set rmargin 0
set tmargin 0
set bmargin 0
set key center center horizontal Left reverse maxrows 2 samplen 2.5
plot [0:1] [0:1] NaN with linespoints lc rgb '#0072b2' lw 2 dt 1 pt 7 ps 0.8 title 'in domain', \
     NaN with linespoints lc rgb '#e69f00' lw 2 dt 1 pt 11 ps 0.8 title 'out of domain (OOD)', \
     NaN with lines lc rgb '#d55e00' lw 2 dt 1 title 'encoder trained OOD', \
     NaN with lines lc rgb '#808080' lw 2 dt 2 title 'no regulariser, OOD'

unset multiplot
set output
