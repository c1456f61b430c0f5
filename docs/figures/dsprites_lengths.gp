# Draws dsprites_lengths.svg from dsprites_lengths.dat. To draw it again: gnuplot dsprites_lengths.gp
if (!exists("output")) output = 'dsprites_lengths.svg'
set terminal svg size 640,400 dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'
set output output
set encoding utf8
set border 3
set tics nomirror out scale 0.6
set grid lt 1 lw 0.5 lc rgb '#d9d9d9'
set key top left
set title 'dSprites, non-linear: CIRCE at gamma 300'
set xlabel 'steps of training'
set logscale x
set xrange [2500:140000]
set xtics ('3,000' 3000, '6,000' 6000, '12,000' 12000, '38,000' 38000, '114,000' 114000)
set ylabel 'test loss'
set yrange [0:0.04]
plot 'dsprites_lengths.dat' using 1:4:5 with filledcurves lc rgb '#e69f00' fs transparent solid 0.18 noborder notitle, \
     '' using 1:3 with linespoints lc rgb '#e69f00' lw 2 pt 11 ps 0.8 title 'out of domain, range of the seeds', \
     '' using 1:2 with linespoints lc rgb '#0072b2' lw 2 pt 7 ps 0.8 title 'in domain'
